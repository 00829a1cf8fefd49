// A client that writes exactly the bytes it is told to, as careless and hostile ones do.
#pragma once

#include <filesystem>
#include <string>

namespace perigee::test {

struct PlainAnswer {
  int status = 0;  // 0: the connection ended instead
  std::string head;
  std::string body;  // chunks joined
};

class PlainClient {
 public:
  explicit PlainClient(const std::string& url);  // "http://127.0.0.1:PORT" or "unix:FILE"
  ~PlainClient();
  PlainClient(const PlainClient&) = delete;
  PlainClient& operator=(const PlainClient&) = delete;

  void send(const std::string& bytes);
  PlainAnswer read_answer();
  std::string read_until(const std::string& mark);  // all up to and with it; what came if the end came first
  bool read_end();                                  // nothing more comes, the connection is closed
  void leave();
  void break_off();  // as a client that crashed: the connection is reset // closes at once

 private:
  bool read_more();

  int descriptor_ = -1;
  std::string received_;
};

// A request with a body and its length.
std::string post_bytes(const std::string& path, const std::string& body, const std::string& headers = "");
std::string get_bytes(const std::string& path, const std::string& headers = "");

}  // namespace perigee::test
