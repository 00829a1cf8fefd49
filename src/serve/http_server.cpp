#include "serve/http_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <optional>
#include <type_traits>
#include <unordered_set>

#include "base/log.h"
#include "serve/client_watch.h"
#include "serve/http_exchange.h"
#include "serve/http_wire.h"
#include "serve/listener.h"

namespace perigee {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::awaitable;
using boost::system::error_code;

using Protocol = asio::generic::stream_protocol;  // TCP and socket files alike
using PlainStream = beast::basic_stream<Protocol>;
using TlsStream = beast::ssl_stream<PlainStream>;
using Parser = http::request_parser<http::string_body>;
using Timer = asio::steady_timer;

constexpr std::size_t kReadBytes = std::size_t{64} << 10;
constexpr std::chrono::milliseconds kLookAgain{500};

auto completing_with(error_code& error) {
  return asio::redirect_error(asio::use_awaitable, error);
}

class ConnectionBase {
 public:
  virtual ~ConnectionBase() = default;
  virtual void close_if_idle() = 0;
  virtual void close() = 0;
};

// What all connections share; touched on the I/O thread only, except for the workers.
struct Shared {
  const Router& router;
  ServerMetrics& metrics;
  const HttpServerOptions& options;
  asio::io_context& io;
  asio::thread_pool& workers;
  Timer& drain_deadline;
  bool draining = false;
  std::unordered_set<ConnectionBase*> connections = {};

  void enter(ConnectionBase* connection) {
    connections.insert(connection);
    metrics.connection_opened();
  }
  void leave(ConnectionBase* connection) {
    connections.erase(connection);
    metrics.connection_closed();
    if (draining && connections.empty()) drain_deadline.cancel();
  }
};

HttpRequest head_of(const Parser& parser, const std::string& peer) {
  HttpRequest head;
  head.method = std::string(parser.get().method_string());
  const std::string target(parser.get().target());
  const std::size_t question = target.find('?');
  head.path = target.substr(0, question);
  if (question != std::string::npos) head.query = target.substr(question + 1);
  for (const auto& field : parser.get()) {
    head.headers.add(std::string(field.name_string()), std::string(field.value()));
  }
  head.peer = peer;
  return head;
}

ApiError parse_fault(const error_code& error) {
  if (error == http::error::body_limit) {
    return ApiError(ApiFault::kTooLarge, "the body is longer than this server allows");
  }
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return ApiError(ApiFault::kHeadTooLarge, "the header is longer than this server allows");
  }
  return ApiError(ApiFault::kInvalidRequest, fmt::format("this is no HTTP request: {}", error.message()));
}

bool is_parse_fault(const error_code& error) {
  return error.category() == make_error_code(http::error::bad_version).category() &&
         error != http::error::end_of_stream && error != http::error::partial_message;
}

template <typename Stream>
class Connection final : public ConnectionBase, public std::enable_shared_from_this<Connection<Stream>> {
 public:
  Connection(Stream stream, Shared& shared, std::string peer)
      : stream_(std::move(stream)),
        shared_(shared),
        peer_(std::move(peer)),
        timer_(shared.io),
        client_timer_(shared.io),
        buffer_(shared.options.max_head_bytes + kReadBytes) {
    shared_.enter(this);
  }
  ~Connection() override {
    if (exchange_) exchange_->close();
    shared_.leave(this);
  }

  static awaitable<void> run(std::shared_ptr<Connection> self) {
    try {
      if (co_await self->shake_hands()) {
        while (co_await self->answer_one()) {
        }
      }
    } catch (const std::exception& error) {
      log_debug("a connection of {} ended: {}", self->peer_, error.what());
    }
    self->end_exchange();
  }

  void close_if_idle() override {
    if (idle_) close();
  }
  void close() override {
    error_code ignored;
    lowest().socket().close(ignored);
    if (exchange_) exchange_->close();
    timer_.cancel();
  }

 private:
  PlainStream& lowest() { return beast::get_lowest_layer(stream_); }

  awaitable<bool> shake_hands() {
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      error_code error;
      lowest().expires_after(shared_.options.head_timeout);
      co_await stream_.async_handshake(asio::ssl::stream_base::server, completing_with(error));
      co_return !error;
    }
    co_return true;
  }

  // Reads one request and answers it; false: the connection ends.
  awaitable<bool> answer_one() {
    Parser parser;
    parser.header_limit(static_cast<std::uint32_t>(shared_.options.max_head_bytes));
    parser.body_limit(shared_.router.options().max_body_bytes);
    error_code error;
    idle_ = true;
    lowest().expires_after(shared_.options.head_timeout);
    co_await http::async_read_header(stream_, buffer_, parser, completing_with(error));
    idle_ = false;
    HttpRequest request = head_of(parser, peer_);
    if (error) {
      if (is_parse_fault(error))
        co_await refuse(shared_.router.refused(parse_fault(error), request), request);
      co_return false;
    }
    std::optional<HttpResponse> early = shared_.router.answer_head(request);
    if (early && !parser.is_done()) {
      co_await refuse(std::move(*early), request);
      co_return false;
    }
    if (!early && !co_await read_body(parser, request)) co_return false;
    const bool modern = parser.get().version() >= 11;  // HTTP/1.0 has no chunks: its streams end by closing
    const WireOptions wire = {.keep_alive = modern && parser.keep_alive() && !shared_.draining,
                              .chunked = modern,
                              .omit_body = request.method == "HEAD"};
    if (early) {
      const std::string bytes = response_bytes(*early, wire);
      co_return co_await write_all(bytes) && wire.keep_alive;
    }
    start_exchange(std::move(request));
    const bool complete = co_await pass_on(wire);
    end_exchange();
    const bool goes_on = complete && wire.keep_alive && !shared_.draining;
    co_return goes_on;
  }

  awaitable<bool> read_body(Parser& parser, HttpRequest& request) {
    lowest().expires_after(shared_.options.body_timeout);
    const bool must_agree = equal_without_case(request.headers.find("Expect").value_or(""), "100-continue");
    if (must_agree && !parser.is_done()) {
      const std::string agreed = "HTTP/1.1 100 Continue\r\n\r\n";
      if (!co_await write_all(agreed)) co_return false;
      lowest().expires_after(shared_.options.body_timeout);
    }
    error_code error;
    if (!parser.is_done()) co_await http::async_read(stream_, buffer_, parser, completing_with(error));
    if (error) {
      if (is_parse_fault(error))
        co_await refuse(shared_.router.refused(parse_fault(error), request), request);
      co_return false;
    }
    request.body = std::move(parser.get().body());
    co_return true;
  }

  // The last answer of a connection whose request was not read to its end. Reading on for a moment keeps the
  // answer from being lost in a reset.
  awaitable<void> refuse(HttpResponse response, const HttpRequest& request) {
    const std::string bytes =
        response_bytes(response, {.keep_alive = false, .omit_body = request.method == "HEAD"});
    if (!co_await write_all(bytes)) co_return;
    error_code error;
    lowest().socket().shutdown(asio::socket_base::shutdown_send, error);
    constexpr std::size_t kMostDiscarded = std::size_t{4} << 20;
    std::vector<char> scratch(std::size_t{16} << 10);
    lowest().expires_after(std::chrono::seconds(2));
    for (std::size_t discarded = 0; !error && discarded < kMostDiscarded;) {
      discarded += co_await lowest().async_read_some(asio::buffer(scratch), completing_with(error));
    }
  }

  void start_exchange(HttpRequest request) {
    const auto wake = [&io = shared_.io, weak = this->weak_from_this()] {
      asio::post(io, [weak] {
        if (const auto self = weak.lock()) self->look_at_exchange();
      });
    };
    exchange_ = std::make_shared<QueuedExchange>(wake, shared_.options.max_backlog_bytes);
    watch();
    asio::post(shared_.workers, [&router = shared_.router, request = std::move(request),
                                 exchange = exchange_] { router.handle(request, exchange); });
  }

  // A client that was given up because it does not read keeps a write waiting, so only closing helps.
  void look_at_exchange() {
    if (exchange_ && exchange_->lost()) {
      close();
    } else {
      timer_.cancel();
    }
  }

  void end_exchange() {
    watching_.emit(asio::cancellation_type::terminal);
    if (exchange_) exchange_->close();
    exchange_.reset();
  }

  auto still_there() {
    return [weak = this->weak_from_this(), exchange = exchange_](const error_code& error) {
      const auto self = weak.lock();
      if (error || !self || self->exchange_ != exchange) return;
      self->look_at_client();
    };
  }

  // Notices that the client leaves. Bytes that wait are left for the next request; while there are some,
  // whether the client is still there is asked for now and then, because no event tells what comes behind
  // them.
  void watch() {
    lowest().socket().async_wait(asio::socket_base::wait_read,
                                 asio::bind_cancellation_slot(watching_.slot(), still_there()));
  }

  void look_at_client() {
    if (client_has_left(lowest().socket().native_handle(), std::is_same_v<Stream, TlsStream>)) {
      exchange_->close();
      timer_.cancel();
      return;
    }
    client_timer_.expires_after(kLookAgain);
    client_timer_.async_wait(asio::bind_cancellation_slot(watching_.slot(), still_there()));
  }

  // Carries output until the exchange has ended; false: the client has left or was given up.
  awaitable<bool> pass_on(WireOptions wire) {
    while (true) {
      const QueuedExchange::Output output = exchange_->take();
      if (exchange_->lost()) co_return false;
      if (output.empty()) {
        if (!co_await wait_for_output()) exchange_->note_silence();
        continue;
      }
      const std::string bytes = wire_bytes(output, wire);
      if (!co_await write_all(bytes)) co_return false;
      if (output.ended) co_return true;
    }
  }

  // True: woken. False: a client that expects a stream has heard nothing for as long as a heartbeat takes.
  awaitable<bool> wait_for_output() {
    error_code error;
    if (exchange_->wants_heartbeats()) {
      timer_.expires_after(shared_.options.heartbeat);
    } else {
      timer_.expires_at(Timer::time_point::max());
    }
    co_await timer_.async_wait(completing_with(error));
    co_return error == asio::error::operation_aborted;
  }

  static std::string wire_bytes(const QueuedExchange::Output& output, const WireOptions& wire) {
    if (output.head && !output.streaming) return response_bytes(*output.head, wire);
    std::string bytes;
    if (output.head) bytes = stream_head_bytes(*output.head, wire);
    if (!output.text.empty()) bytes += stream_bytes(output.text, wire);
    if (output.ended) bytes += stream_end_bytes(wire);
    return bytes;
  }

  awaitable<bool> write_all(const std::string& bytes) {
    constexpr std::size_t kPiece = std::size_t{64} << 10;
    error_code error;
    for (std::size_t at = 0; at < bytes.size() && !error; at += kPiece) {
      const std::size_t size = std::min(kPiece, bytes.size() - at);
      lowest().expires_after(shared_.options.write_timeout);
      co_await asio::async_write(stream_, asio::buffer(bytes.data() + at, size), completing_with(error));
    }
    lowest().expires_never();
    co_return !error;
  }

  Stream stream_;
  Shared& shared_;
  const std::string peer_;
  Timer timer_;  // cancelled: look at the exchange
  Timer client_timer_;
  beast::flat_buffer buffer_;
  std::shared_ptr<QueuedExchange> exchange_;
  asio::cancellation_signal watching_;
  bool idle_ = true;
};

using Acceptor = asio::basic_socket_acceptor<Protocol>;

}  // namespace

class HttpServer::Impl {
 public:
  Impl(const Router& router, ServerMetrics& metrics, HttpServerOptions options)
      : options_(std::move(options)),
        shared_{router, metrics, options_, io_, workers_, drain_deadline_},
        workers_(options_.workers),
        drain_deadline_(io_) {
    if (!options_.certificate.empty()) load_certificate();
    if (!options_.host.empty()) sockets_ = listen_tcp(options_.host, options_.port);
    if (!options_.socket_file.empty()) sockets_.push_back(listen_unix(options_.socket_file));
    if (sockets_.empty()) fail(ErrorCode::kUsage, "nothing to listen on; give --host or --unix");
    for (ListeningSocket& socket : sockets_) {
      const bool local = socket.family() == AF_UNIX;
      urls_.push_back((local ? "" : tls_ ? "https://" : "http://") + socket.shown());
      const int family = socket.family();
      acceptors_.emplace_back(io_, Protocol(family, 0), socket.release());
    }
  }

  ~Impl() {
    workers_.join();  // handlers still refer to exchanges
    shared_.draining = false;
  }

  const std::vector<std::string>& urls() const { return urls_; }

  void run() {
    for (Acceptor& acceptor : acceptors_) asio::co_spawn(io_, accept_from(acceptor), asio::detached);
    io_.run();
  }

  void drain(std::chrono::milliseconds at_most) {
    asio::post(io_, [this, at_most] {
      if (shared_.draining) return;
      shared_.draining = true;
      error_code ignored;
      for (Acceptor& acceptor : acceptors_) acceptor.close(ignored);
      const auto connections = shared_.connections;
      for (ConnectionBase* connection : connections) connection->close_if_idle();
      if (shared_.connections.empty()) return;
      drain_deadline_.expires_after(at_most);
      drain_deadline_.async_wait([this](const error_code& error) {
        if (error) return;
        const auto left = shared_.connections;
        for (ConnectionBase* connection : left) connection->close();
      });
    });
  }

 private:
  void load_certificate() {
    tls_.emplace(asio::ssl::context::tls_server);
    tls_->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                      asio::ssl::context::no_tlsv1_1);
    error_code error;
    tls_->use_certificate_chain_file(options_.certificate.string(), error);
    if (error) {
      fail(ErrorCode::kUsage, "--tls-cert {}: {}", options_.certificate.string(), error.message());
    }
    tls_->use_private_key_file(options_.private_key.string(), asio::ssl::context::pem, error);
    if (error) {
      fail(ErrorCode::kUsage, "--tls-key {}: {}", options_.private_key.string(), error.message());
    }
  }

  awaitable<void> accept_from(Acceptor& acceptor) {
    Timer pause(io_);
    while (acceptor.is_open()) {
      error_code error;
      if (shared_.connections.size() >= options_.max_connections) {
        pause.expires_after(std::chrono::milliseconds(50));
        co_await pause.async_wait(completing_with(error));
        continue;
      }
      Protocol::socket socket(io_);
      co_await acceptor.async_accept(socket, completing_with(error));
      if (!error) {
        welcome(std::move(socket));
      } else if (acceptor.is_open()) {
        log_warning("cannot accept a connection: {}", error.message());
        pause.expires_after(std::chrono::milliseconds(100));
        co_await pause.async_wait(completing_with(error));
      }
    }
  }

  void welcome(Protocol::socket socket) {
    const int descriptor = socket.native_handle();
    std::string peer = peer_name(descriptor);
    const bool local = peer == "unix";
    const int on = 1;
    if (!local) ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    PlainStream plain(std::move(socket));
    if (tls_ && !local) {
      serve(std::make_shared<Connection<TlsStream>>(TlsStream(std::move(plain), *tls_), shared_,
                                                    std::move(peer)));
    } else {
      serve(std::make_shared<Connection<PlainStream>>(std::move(plain), shared_, std::move(peer)));
    }
  }

  template <typename ConnectionPtr>
  void serve(ConnectionPtr connection) {
    using OneConnection = typename ConnectionPtr::element_type;
    asio::co_spawn(io_, OneConnection::run(std::move(connection)), asio::detached);
  }

  const HttpServerOptions options_;
  Shared shared_;  // before io_, whose end is that of connections which still refer to it
  asio::io_context io_{1};
  asio::thread_pool workers_;
  Timer drain_deadline_;
  std::optional<asio::ssl::context> tls_;
  std::vector<ListeningSocket> sockets_;  // their names; the descriptors are the acceptors'
  std::vector<std::string> urls_;
  std::vector<Acceptor> acceptors_;
};

HttpServer::HttpServer(const Router& router, ServerMetrics& metrics, HttpServerOptions options)
    : impl_(std::make_unique<Impl>(router, metrics, std::move(options))) {}

HttpServer::~HttpServer() = default;

const std::vector<std::string>& HttpServer::urls() const {
  return impl_->urls();
}

void HttpServer::run() {
  impl_->run();
}

void HttpServer::drain(std::chrono::milliseconds at_most) {
  impl_->drain(at_most);
}

}  // namespace perigee
