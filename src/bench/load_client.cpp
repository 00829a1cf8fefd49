#include "bench/load_client.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <charconv>
#include <chrono>
#include <limits>

#include "base/error.h"

namespace perigee {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using Parser = http::response_parser<http::string_body>;

constexpr auto kSilence = std::chrono::seconds(120);  // after which an answer is given up
constexpr auto kGlance = std::chrono::milliseconds(50);

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

tcp::endpoint endpoint_of(const LoadTarget& target) {
  return {asio::ip::make_address(target.host), target.port};
}

// The number behind the last "NAME": of an answer; 0 if there is none.
std::uint64_t number_behind(std::string_view text, std::string_view name) {
  const std::size_t at = text.rfind(name);
  std::uint64_t number = 0;
  if (at == std::string_view::npos) return number;
  const std::string_view digits = text.substr(at + name.size());
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

// Whether an event brings text. Reading each as JSON would cost this side more than the server's.
bool brings_text(std::string_view event) {
  for (const std::string_view name : {R"("content":")", R"("reasoning_content":")"}) {
    const std::size_t at = event.find(name);
    if (at != std::string_view::npos && event.substr(at + name.size()).substr(0, 1) != "\"") return true;
  }
  return false;
}

// Ends a loop when it is cancelled.
void watch(asio::io_context& io, asio::steady_timer& timer, const CancelToken& cancel) {
  timer.expires_after(kGlance);
  timer.async_wait([&](const error_code& error) {
    if (error) return;
    if (cancel.cancelled()) {
      io.stop();
    } else {
      watch(io, timer, cancel);
    }
  });
}

// The bodies that are left, and what became of the others.
struct Work {
  const std::vector<std::string>& bodies;
  tcp::endpoint endpoint;
  std::size_t next = 0;
  std::size_t busy = 0;  // clients that are not through
  LoadResult result = {};
  std::function<void()> on_end = {};
};

// One client: connects, and sends one body after the other as long as there are some.
class Client : public std::enable_shared_from_this<Client> {
 public:
  Client(asio::io_context& io, Work& work) : stream_(io), work_(work) { ++work_.busy; }

  void connect() {
    stream_.expires_after(kSilence);
    stream_.async_connect(work_.endpoint, [self = shared_from_this()](const error_code& error) {
      if (error) {
        self->record_.status = 0;
        return self->leave(self->work_.next < self->work_.bodies.size());
      }
      error_code ignored;
      self->stream_.socket().set_option(tcp::no_delay(true), ignored);
      self->send_next();
    });
  }

 private:
  void send_next() {
    if (work_.next == work_.bodies.size()) return leave(false);
    request_ = post_request("/v1/chat/completions", work_.bodies[work_.next++]);
    record_ = {};
    seen_ = 0;
    parser_ = std::make_unique<Parser>();
    parser_->body_limit(std::numeric_limits<std::uint64_t>::max());
    sent_ = Clock::now();
    stream_.expires_after(kSilence);
    asio::async_write(stream_, asio::buffer(request_),
                      [self = shared_from_this()](const error_code& error, std::size_t) {
                        if (error) return self->leave(true);
                        self->read_on();
                      });
  }

  void read_on() {
    stream_.expires_after(kSilence);
    http::async_read_some(stream_, buffer_, *parser_,
                          [self = shared_from_this()](const error_code& error, std::size_t) {
                            if (error) return self->leave(true);
                            self->take_events();
                            if (!self->parser_->is_done()) return self->read_on();
                            self->end_record();
                            self->send_next();
                          });
  }

  void take_events() {
    const std::string& text = parser_->get().body();
    const auto now = Clock::now();
    for (std::size_t end = 0; (end = text.find("\n\n", seen_)) != std::string::npos; seen_ = end + 2) {
      if (!brings_text(std::string_view(text).substr(seen_, end - seen_))) continue;
      const double seconds = std::chrono::duration<double>(now - last_text_).count();
      if (record_.first_seconds == 0) {
        record_.first_seconds = std::chrono::duration<double>(now - sent_).count();
      } else {
        record_.gaps.push_back(static_cast<float>(seconds));
      }
      last_text_ = now;
    }
  }

  void end_record() {
    const std::string& text = parser_->get().body();
    record_.status = static_cast<int>(parser_->get().result_int());
    record_.prompt_tokens = number_behind(text, R"("prompt_tokens":)");
    record_.completion_tokens = number_behind(text, R"("completion_tokens":)");
    work_.result.records.push_back(std::move(record_));
  }

  void leave(bool broken) {
    if (broken) work_.result.records.push_back({});
    stream_.close();
    if (--work_.busy == 0) work_.on_end();
  }

  beast::tcp_stream stream_;
  Work& work_;
  beast::flat_buffer buffer_;
  std::unique_ptr<Parser> parser_;
  std::string request_;
  StreamRecord record_;
  Clock::time_point sent_, last_text_;
  std::size_t seen_ = 0;  // of the body
};

}  // namespace

LoadTarget load_target(std::string_view url) {
  constexpr std::string_view kScheme = "http://";
  const std::string_view whole = url;
  if (url.starts_with(kScheme)) url.remove_prefix(kScheme.size());
  if (url.ends_with('/')) url.remove_suffix(1);
  const std::size_t colon = url.rfind(':');
  const std::string_view host = url.substr(0, colon);
  LoadTarget target;
  if (host == "127.0.0.1" || host == "localhost") target.host = "127.0.0.1";
  if (host == "[::1]") target.host = "::1";
  const std::string_view digits = colon == std::string_view::npos ? "" : url.substr(colon + 1);
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), target.port);
  const bool port = read.ec == std::errc{} && read.ptr == digits.data() + digits.size() && target.port > 0;
  if (!target.host.empty() && port) return target;
  fail(ErrorCode::kUsage,
       "{}: only a server of this machine may be put under load; write http://127.0.0.1:PORT", whole);
}

std::string get_request(const std::string& path) {
  return fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
}

std::string post_request(const std::string& path, const std::string& body) {
  return fmt::format("POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{}", path, body.size(),
                     body);
}

std::string ask(const LoadTarget& target, const std::string& method, const std::string& path,
                const std::string& body) {
  try {
    asio::io_context io;
    tcp::socket socket(io);
    socket.connect(endpoint_of(target));
    const std::string request = method == "GET" ? get_request(path) : post_request(path, body);
    asio::write(socket, asio::buffer(request));
    beast::flat_buffer buffer;
    Parser parser;
    parser.body_limit(std::numeric_limits<std::uint64_t>::max());
    http::read(socket, buffer, parser);
    if (parser.get().result_int() == 200) return parser.get().body();
    fail(ErrorCode::kInternal, "{} {} is answered with status {}: {}", method, path,
         parser.get().result_int(), parser.get().body());
  } catch (const boost::system::system_error& error) {
    fail(ErrorCode::kIo, "no answer from {}:{} to {} {}: {}", target.host, target.port, method, path,
         error.what());
  }
}

LoadResult run_load(const LoadTarget& target, const std::vector<std::string>& bodies, std::size_t at_once,
                    const CancelToken& cancel) {
  asio::io_context io(1);
  asio::steady_timer timer(io);
  Work work{.bodies = bodies, .endpoint = endpoint_of(target)};
  work.on_end = [&] { timer.cancel(); };
  watch(io, timer, cancel);
  const auto begin = Clock::now();
  for (std::size_t i = 0; i < std::min(at_once, bodies.size()); ++i) {
    std::make_shared<Client>(io, work)->connect();
  }
  io.run();
  cancel.check();
  work.result.seconds = seconds_since(begin);
  return std::move(work.result);
}

// The sockets, and a loop that goes on only inside open(): what arrives in between waits in the sockets.
class HeldConnections::Impl {
 public:
  explicit Impl(const LoadTarget& target) : endpoint_(endpoint_of(target)) {}

  std::size_t open(std::size_t count, const std::string& request, const std::string& mark, double seconds,
                   const CancelToken& cancel) {
    std::size_t arrived = 0;
    asio::steady_timer timer(io_);
    io_.restart();
    watch(io_, timer, cancel);
    for (std::size_t i = 0; i < count; ++i) {
      auto held = std::make_shared<Held>(io_);
      held_.push_back(held);
      held->socket.async_connect(endpoint_, [&, held](const error_code& error) {
        if (error) return;
        asio::async_write(held->socket, asio::buffer(request),
                          [&, held](const error_code& failed, std::size_t) {
                            if (!failed)
                              read(held, mark, [&] {
                                if (++arrived == count) io_.stop();
                              });
                          });
      });
    }
    io_.run_for(std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds)));
    for (const auto& held : held_) {
      error_code ignored;
      held->socket.cancel(ignored);
    }
    timer.cancel();
    io_.restart();
    io_.run();  // the cancelled handlers, which refer to this call
    cancel.check();
    return arrived;
  }

 private:
  struct Held {
    explicit Held(asio::io_context& io) : socket(io) {}
    tcp::socket socket;
    std::array<char, 4096> piece{};
    std::string received;
  };

  void read(const std::shared_ptr<Held>& held, const std::string& mark, std::function<void()> arrived) {
    held->socket.async_read_some(asio::buffer(held->piece), [this, held, &mark, arrived = std::move(arrived)](
                                                                const error_code& error, std::size_t size) {
      if (error) return;
      held->received.append(held->piece.data(), size);
      if (held->received.find(mark) != std::string::npos) return arrived();
      read(held, mark, arrived);
    });
  }

  const tcp::endpoint endpoint_;
  asio::io_context io_{1};
  std::vector<std::shared_ptr<Held>> held_;
};

HeldConnections::HeldConnections(LoadTarget target) : impl_(std::make_unique<Impl>(target)) {}

HeldConnections::~HeldConnections() = default;

std::size_t HeldConnections::open(std::size_t count, const std::string& request, const std::string& mark,
                                  double seconds, const CancelToken& cancel) {
  return impl_->open(count, request, mark, seconds, cancel);
}

}  // namespace perigee
