#include "serve/client_watch.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>

namespace perigee {
namespace {

class ClientWatch : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends_.data()), 0); }
  void TearDown() override {
    for (const int end : ends_) {
      if (end >= 0) ::close(end);
    }
  }

  void client_sends(const std::string& bytes) const {
    ASSERT_EQ(::send(ends_[0], bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  void client_closes() {
    ::close(ends_[0]);
    ends_[0] = -1;
  }
  bool left(bool tls = false) const { return client_has_left(ends_[1], tls); }

 private:
  std::array<int, 2> ends_ = {-1, -1};
};

TEST_F(ClientWatch, SeesAClientThatIsThere) {
  EXPECT_FALSE(left());
  EXPECT_FALSE(left(true));
}

TEST_F(ClientWatch, SeesAClientThatHasClosed) {
  client_closes();
  EXPECT_TRUE(left());
}

TEST_F(ClientWatch, TakesANextRequestForNoGoodbye) {
  client_sends("GET / HTTP/1.1\r\n");
  EXPECT_FALSE(left());
  EXPECT_FALSE(left(true));
}

TEST_F(ClientWatch, SeesAClientThatHasClosedBehindANextRequest) {
  client_sends("GET / HTTP/1.1\r\n");
  client_closes();
  EXPECT_TRUE(left());
}

// close_notify: level 1, description 0 (RFC 5246, 7.2), in the clear and as long as TLS 1.3's AEADs make it.
TEST_F(ClientWatch, KnowsTheGoodbyeOfTls) {
  client_sends(std::string("\x15\x03\x03\x00\x02\x01\x00", 7));
  EXPECT_TRUE(left(true));
  EXPECT_FALSE(left());  // without TLS these are bytes like others
}

TEST_F(ClientWatch, KnowsTheGoodbyeOfTls13) {
  client_sends(std::string("\x17\x03\x03\x00\x13", 5) + std::string(19, '\xab'));
  EXPECT_TRUE(left(true));
}

TEST_F(ClientWatch, TakesAnEncryptedRequestForNoGoodbye) {
  client_sends(std::string("\x17\x03\x03\x00\x14", 5) + std::string(20, '\xab'));
  EXPECT_FALSE(left(true));
}

TEST_F(ClientWatch, TakesAShortRecordWithMoreBehindItForNoGoodbye) {
  client_sends(std::string("\x17\x03\x03\x00\x13", 5) + std::string(19, '\xab') + "\x17");
  EXPECT_FALSE(left(true));
}

}  // namespace
}  // namespace perigee
