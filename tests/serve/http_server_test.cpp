// The transport over real sockets on loopback, with a model whose words the test says.
#include "serve/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <thread>

#include "serve/dialect.h"
#include "serve/hand_driven_service.h"
#include "serve/plain_client.h"
#include "support/temp_dir.h"
#include "support/vocabularies.h"

namespace perigee {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::get_bytes;
using test::PlainAnswer;
using test::PlainClient;
using test::post_bytes;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kChat = "/v1/chat/completions";
const std::string kWhole = R"({"messages":[{"role":"user","content":"Hi"}]})";
const std::string kStream = R"({"messages":[{"role":"user","content":"Hi"}],"stream":true})";

const Tokenizer& nano() {
  return test::nano_tokenizer();
}

// A server on a free port, run by a thread of its own.
class RunningServer {
 public:
  explicit RunningServer(HttpServerOptions options = {}, RouterOptions routing = {})
      : router(std::move(routing)),
        context{.model = {.names = {"nano"}, .created = 1, .context_tokens = 4096},
                .options = {},
                .tokenizer = nano(),
                .service = service,
                .metrics = metrics,
                .image_size = refuse_images()} {
    add_openai_routes(router, context);
    add_state_routes(router, context);
    options.port = 0;
    server = std::make_unique<HttpServer>(router, metrics, std::move(options));
    thread = std::thread([this] { server->run(); });
  }
  ~RunningServer() {
    server->drain(milliseconds(0));
    if (thread.joinable()) thread.join();
  }
  const std::string& url() const { return server->urls().front(); }

  test::HandDrivenService service;
  ServerMetrics metrics{"nano"};
  Router router;
  ServeContext context;
  std::unique_ptr<HttpServer> server;
  std::thread thread;
};

std::vector<TokenId> ids(const std::string& markup) {
  return nano().encode_markup(markup);
}

void say_all(const test::HandDrivenService::Accepted& job, const std::string& markup) {
  for (const TokenId id : ids(markup)) job.say(id);
}

const std::string kReply =
    "Hm.<|close|>think<|sep|><|open|>response<|sep|>Hello<|close|>response<|sep|><|close|>message<|sep|>"
    "<|end_of_msg|>";

TEST(HttpServer, AnswersOneRequestAfterTheOtherOnAConnection) {
  RunningServer server;
  PlainClient client(server.url());
  for (int i = 0; i < 3; ++i) {
    client.send(get_bytes("/health"));
    const PlainAnswer answer = client.read_answer();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, R"({"status":"ok"})");
    EXPECT_THAT(answer.head, HasSubstr("Connection: keep-alive"));
  }
  client.send(get_bytes("/health") + get_bytes("/v1/models") + get_bytes("/health", "Connection: close\r\n"));
  EXPECT_EQ(client.read_answer().body, R"({"status":"ok"})");
  EXPECT_THAT(client.read_answer().body, HasSubstr("nano"));
  EXPECT_THAT(client.read_answer().head, HasSubstr("Connection: close"));
  EXPECT_TRUE(client.read_end());
}

TEST(HttpServer, StreamsWordsWhenTheyAreSaid) {
  RunningServer server;
  PlainClient client(server.url());
  client.send(post_bytes(kChat, kStream));
  const auto job = server.service.next_job();
  job.start();
  EXPECT_THAT(client.read_until("\n\n"), HasSubstr("text/event-stream"));
  say_all(job, "H");
  EXPECT_THAT(client.read_until("\n\n"), HasSubstr(R"("reasoning_content":"H")"));
  say_all(job, kReply.substr(1));
  job.finish();
  EXPECT_THAT(client.read_until("0\r\n\r\n"), HasSubstr("data: [DONE]"));
  client.send(get_bytes("/health"));
  EXPECT_EQ(client.read_answer().status, 200);
}

TEST(HttpServer, AnswersWhole) {
  RunningServer server;
  PlainClient client(server.url());
  client.send(post_bytes(kChat, kWhole));
  const auto job = server.service.next_job();
  job.start();
  say_all(job, kReply);
  job.finish();
  const PlainAnswer answer = client.read_answer();
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(answer.body, HasSubstr(R"("content":"Hello")"));
}

TEST(HttpServer, WritesAHeartbeatIntoASilentStream) {
  HttpServerOptions options;
  options.heartbeat = milliseconds(50);
  RunningServer server(options);
  PlainClient client(server.url());
  client.send(post_bytes(kChat, kStream));
  const auto job = server.service.next_job();
  job.start();
  client.read_until(": keep-alive\n\n");
  EXPECT_THAT(client.read_until(": keep-alive\n\n"), HasSubstr(": keep-alive"));
  job.finish_cancelled();
}

TEST(HttpServer, WritesHeartbeatsForAStreamThatWaitsInTheQueue) {
  HttpServerOptions options;
  options.heartbeat = milliseconds(50);
  RunningServer server(options);
  PlainClient client(server.url());
  client.send(post_bytes(kChat, kStream));
  const auto job = server.service.next_job();
  EXPECT_THAT(client.read_until("\r\n\r\n"), HasSubstr("text/event-stream"));
  client.read_until(": keep-alive\n\n");
  client.read_until(": keep-alive\n\n");
  job.start();
  say_all(job, kReply);
  job.finish();
  EXPECT_THAT(client.read_until("0\r\n\r\n"), HasSubstr("data: [DONE]"));
  client.send(get_bytes("/health"));
  EXPECT_EQ(client.read_answer().status, 200);
}

TEST(HttpServer, SaysInTheStreamWhatGoesWrongInTheQueue) {
  HttpServerOptions options;
  options.heartbeat = milliseconds(50);
  RunningServer server(options);
  PlainClient client(server.url());
  client.send(post_bytes(kChat, kStream));
  const auto job = server.service.next_job();
  client.read_until(": keep-alive\n\n");
  job.finish_cancelled();
  const std::string end = client.read_until("0\r\n\r\n");
  EXPECT_THAT(end, HasSubstr("data: {\"error\":"));
  EXPECT_THAT(end, HasSubstr("data: [DONE]\n\n"));
}

TEST(HttpServer, LeavesAWholeAnswerInPeace) {
  HttpServerOptions options;
  options.heartbeat = milliseconds(20);
  RunningServer server(options);
  PlainClient client(server.url());
  client.send(post_bytes(kChat, kWhole));
  const auto job = server.service.next_job();
  std::this_thread::sleep_for(milliseconds(100));
  job.finish_cancelled();
  EXPECT_EQ(client.read_answer().status, 503);
}

TEST(HttpServer, CancelsForAClientThatLeavesAStream) {
  RunningServer server;
  PlainClient client(server.url());
  client.send(post_bytes(kChat, kStream));
  const auto job = server.service.next_job();
  job.start();
  client.read_until("\n\n");
  client.leave();
  EXPECT_TRUE(server.service.was_cancelled(job.id));
  EXPECT_FALSE(job.say(ids("x")[0]));
  job.finish_cancelled();
}

TEST(HttpServer, CancelsForAClientThatLeavesBeforeTheAnswer) {
  RunningServer server;
  PlainClient client(server.url());
  client.send(post_bytes(kChat, kWhole));
  const auto job = server.service.next_job();
  client.leave();
  EXPECT_TRUE(server.service.was_cancelled(job.id));
  job.finish_cancelled();
}

std::size_t connections(const RunningServer& server) {
  const std::string text = server.metrics.text({});
  const std::string name = "\nperigee_connections{model_name=\"nano\"} ";
  return std::stoul(text.substr(text.find(name) + name.size()));
}

// Clients that go at every point of a request, politely and by crashing; the server forgets all of them.
class DepartingClients : public ::testing::TestWithParam<bool> {
 public:
  void go(PlainClient& client) const {
    if (GetParam()) {
      client.break_off();
    } else {
      client.leave();
    }
  }
  void expect_forgotten() const {
    {
      PlainClient next(
          server.url());  // connections are taken in turn: behind this one's answer, all have been
      next.send(get_bytes("/health"));
      EXPECT_EQ(next.read_answer().status, 200);
    }
    std::size_t left = connections(server);
    for (int i = 0; i < 2000 && left > 0; ++i) {
      std::this_thread::sleep_for(milliseconds(10));
      left = connections(server);
    }
    EXPECT_EQ(left, 0u);
  }

  RunningServer server{[] {
    HttpServerOptions options;
    options.heartbeat = milliseconds(30);
    return options;
  }()};
  const std::string post = post_bytes(kChat, kStream);
};

TEST_P(DepartingClients, BeforeTheirRequestIsComplete) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, post.find("\r\n") + 1,
                                  post.find("\r\n\r\n") + 3, post.find("\r\n\r\n") + 4, post.size() - 1}) {
    PlainClient client(server.url());
    client.send(post.substr(0, bytes));
    go(client);
  }
  expect_forgotten();
}

TEST_P(DepartingClients, InTheQueue) {
  for (const bool after_heartbeat : {false, true}) {
    PlainClient client(server.url());
    client.send(post);
    const auto job = server.service.next_job();
    if (after_heartbeat) client.read_until(": keep-alive");
    go(client);
    EXPECT_TRUE(server.service.was_cancelled(job.id));
    job.finish_cancelled();
  }
  expect_forgotten();
}

TEST_P(DepartingClients, InTheirReply) {
  for (const char* said : {"", "Hm", "Hm.<|close|>think<|sep|><|open|>response<|sep|>Hel"}) {
    PlainClient client(server.url());
    client.send(post);
    const auto job = server.service.next_job();
    job.start();
    say_all(job, said);
    client.read_until("\n\n");
    go(client);
    EXPECT_TRUE(server.service.was_cancelled(job.id));
    job.finish_cancelled();
  }
  expect_forgotten();
}

TEST_P(DepartingClients, BehindTheirReply) {
  for (const char* mark : {"\n\n", "[DONE]", "0\r\n\r\n"}) {  // how much of it they read
    PlainClient client(server.url());
    client.send(post);
    const auto job = server.service.next_job();
    job.start();
    say_all(job, kReply);
    job.finish();
    client.read_until(mark);
    go(client);
  }
  expect_forgotten();
}

INSTANTIATE_TEST_SUITE_P(HttpServer, DepartingClients, ::testing::Values(false, true), [](const auto& named) {
  return std::string(named.param ? "ByCrashing" : "Politely");
});

TEST(HttpServer, ReadsARequestThatComesByteByByte) {
  RunningServer server;
  PlainClient client(server.url());
  for (const char byte : post_bytes(kChat, kWhole)) {
    client.send(std::string(1, byte));
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  const auto job = server.service.next_job();
  job.start();
  say_all(job, kReply);
  job.finish();
  EXPECT_EQ(client.read_answer().status, 200);
}

TEST(HttpServer, ClosesAConnectionThatSendsItsBodyTooSlowly) {
  HttpServerOptions options;
  options.body_timeout = milliseconds(100);
  RunningServer server(options);
  PlainClient client(server.url());
  std::string bytes = post_bytes(kChat, kWhole);
  bytes.pop_back();
  client.send(bytes);
  EXPECT_TRUE(client.read_end());
}

TEST(HttpServer, ASlowReaderGetsEveryWord) {
  RunningServer server;
  PlainClient slow(server.url());
  slow.send(post_bytes(kChat, kStream));
  const auto job = server.service.next_job();
  job.start();
  constexpr int kWords = 20'000;  // about 4 MB: more than sockets hold, less than the server keeps
  const TokenId word = ids("word")[0];
  for (int i = 0; i < kWords; ++i) ASSERT_TRUE(job.say(word));
  PlainClient other(server.url());
  other.send(get_bytes("/health"));
  EXPECT_EQ(other.read_answer().status, 200) << "nobody else waits for it";
  job.finish(GenerationEnd::kMaxTokens);
  int words = 0;
  for (std::string event = slow.read_until("\n\n"); !event.empty(); event = slow.read_until("\n\n")) {
    if (event.find("reasoning_content") != std::string::npos && ++words % 500 == 0)
      std::this_thread::sleep_for(milliseconds(2));
    if (event.find("[DONE]") != std::string::npos) break;
  }
  EXPECT_EQ(words, kWords);
}

TEST(HttpServer, GivesUpAReaderThatDoesNotRead) {
  HttpServerOptions options;
  options.max_backlog_bytes = 100'000;
  RunningServer server(options);
  PlainClient client(server.url());
  client.send(post_bytes(kChat, kStream));
  const auto job = server.service.next_job();
  job.start();
  const TokenId word = ids("word")[0];
  int said = 0;
  while (said < 1'000'000 && job.say(word)) ++said;
  EXPECT_LT(said, 1'000'000);
  EXPECT_TRUE(server.service.was_cancelled(job.id));
  job.finish_cancelled();
}

TEST(HttpServer, RefusesWhatIsNoHttp) {
  RunningServer server;
  for (const char* bytes :
       {"\x16\x03\x01\x02\x01hello\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/1.1\r\nBad Header\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n", "POST / HTTP/1.1\r\nContent-Length: 1x\r\n\r\n"}) {
    PlainClient client(server.url());
    client.send(bytes);
    const PlainAnswer answer = client.read_answer();
    EXPECT_EQ(answer.status, 400) << bytes;
    EXPECT_THAT(answer.body, HasSubstr("invalid_request_error"));
    EXPECT_TRUE(client.read_end());
  }
}

// Two servers that disagree on where a request ends can be played against each other.
TEST(HttpServer, RefusesTwoLengths) {
  RunningServer server;
  for (const char* headers : {"Content-Length: 2\r\nContent-Length: 3\r\n",
                              "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n"}) {
    PlainClient client(server.url());
    client.send(std::string("POST /tokenize HTTP/1.1\r\nHost: localhost\r\n") + headers + "\r\n");
    EXPECT_EQ(client.read_answer().status, 400) << headers;
  }
}

TEST(HttpServer, RefusesALongHead) {
  RunningServer server;
  PlainClient client(server.url());
  client.send(get_bytes("/health", "X-Long: " + std::string(100'000, 'x') + "\r\n"));
  EXPECT_EQ(client.read_answer().status, 431);
}

TEST(HttpServer, RefusesABodyByItsDeclaredLengthWithoutReadingIt) {
  RunningServer server;
  PlainClient client(server.url());
  client.send("POST " + kChat + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999999\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 413);
  EXPECT_TRUE(client.read_end());
}

TEST(HttpServer, RefusesABodyThatGrowsTooLong) {
  RouterOptions routing;
  routing.max_body_bytes = 1000;
  RunningServer server({}, routing);
  PlainClient client(server.url());
  client.send("POST " + kChat + " HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  client.send("800\r\n" + std::string(0x800, ' ') + "\r\n");
  EXPECT_EQ(client.read_answer().status, 413);
}

TEST(HttpServer, ReadsAChunkedBody) {
  RunningServer server;
  PlainClient client(server.url());
  client.send("POST " + kChat + " HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  client.send(fmt::format("{:x}\r\n{}\r\n0\r\n\r\n", kWhole.size(), kWhole));
  const auto job = server.service.next_job();
  job.finish_cancelled();
  EXPECT_EQ(client.read_answer().status, 503);
}

TEST(HttpServer, AgreesToABodyThatWasAnnounced) {
  RunningServer server;
  PlainClient client(server.url());
  client.send("POST " + kChat +
              " HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_THAT(client.read_until("\r\n\r\n"), StartsWith("HTTP/1.1 100 Continue"));
  client.send("{}");
  EXPECT_EQ(client.read_answer().status, 400);
}

TEST(HttpServer, RefusesAWrongKeyBeforeItReadsTheBody) {
  RouterOptions routing;
  routing.keys = {"right"};
  RunningServer server({}, routing);
  PlainClient client(server.url());
  client.send("POST " + kChat +
              " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer wrong\r\nContent-Length: 1000\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 401);
  PlainClient other(server.url());
  other.send(get_bytes("/v1/models", "Authorization: Bearer right\r\n"));
  EXPECT_EQ(other.read_answer().status, 200);
}

TEST(HttpServer, ClosesAConnectionThatSendsItsHeadTooSlowly) {
  HttpServerOptions options;
  options.head_timeout = milliseconds(100);
  RunningServer server(options);
  PlainClient client(server.url());
  client.send("GET /health HTTP/1.1\r\nHos");
  EXPECT_TRUE(client.read_end());
}

TEST(HttpServer, EndsTheConnectionBehindAStreamForAnOldClient) {
  RunningServer server;
  PlainClient client(server.url());
  client.send(
      fmt::format("POST {} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{}", kChat, kStream.size(), kStream));
  const auto job = server.service.next_job();
  job.start();
  say_all(job, kReply);
  job.finish();
  const std::string head = client.read_until("\r\n\r\n");
  EXPECT_EQ(head.find("chunked"), std::string::npos);
  EXPECT_THAT(client.read_until("data: [DONE]\n\n"), StartsWith("data: {"));
  EXPECT_TRUE(client.read_end());
}

// Both ends of every connection are in this process.
bool may_open(rlim_t descriptors) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max < descriptors) return false;
  limit.rlim_cur = std::max(limit.rlim_cur, descriptors);
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

TEST(HttpServer, HoldsAThousandStreamsWithOneThread) {
  constexpr int kStreams = 1000;
  if (!may_open(2 * kStreams + 200)) GTEST_SKIP() << "this machine lets a process open too few files";
  RunningServer server;
  std::vector<std::unique_ptr<PlainClient>> clients;
  std::vector<test::HandDrivenService::Accepted> jobs;
  for (int i = 0; i < kStreams; ++i) {
    clients.push_back(std::make_unique<PlainClient>(server.url()));
    clients.back()->send(post_bytes(kChat, kStream));
  }
  for (int i = 0; i < kStreams; ++i) {
    jobs.push_back(server.service.next_job());
    jobs.back().start();
  }
  for (const auto& job : jobs) say_all(job, "Hm");
  for (const auto& job : jobs) job.finish(GenerationEnd::kMaxTokens);
  for (const auto& client : clients) EXPECT_THAT(client->read_answer().body, HasSubstr("[DONE]"));
}

TEST(HttpServer, LetsStreamsEndWhenItStops) {
  RunningServer server;
  PlainClient idle(server.url());
  idle.send(get_bytes("/health"));
  EXPECT_EQ(idle.read_answer().status, 200);
  PlainClient client(server.url());
  client.send(post_bytes(kChat, kStream));
  const auto job = server.service.next_job();
  job.start();
  client.read_until("\n\n");
  server.server->drain(seconds(20));
  EXPECT_TRUE(idle.read_end());
  EXPECT_THROW(PlainClient(server.url()), std::runtime_error);
  say_all(job, kReply);
  job.finish();
  EXPECT_THAT(client.read_until("[DONE]"), HasSubstr("Hello"));
  server.thread.join();
}

TEST(HttpServer, CutsOffWhatDoesNotEndInTime) {
  RunningServer server;
  PlainClient client(server.url());
  client.send(post_bytes(kChat, kStream));
  const auto job = server.service.next_job();
  job.start();
  client.read_until("\n\n");
  server.server->drain(milliseconds(50));
  server.thread.join();
  EXPECT_TRUE(server.service.was_cancelled(job.id));
  client.read_until("[DONE]");
  EXPECT_TRUE(client.read_end());
  job.finish_cancelled();
}

TEST(HttpServer, AnswersOnASocketFileForItsOwnerOnly) {
  const test::TempDir folder;
  HttpServerOptions options;
  options.host.clear();
  options.socket_file = folder.path() / "s";
  {
    RunningServer server(options);
    struct stat status {};
    ASSERT_EQ(::stat(options.socket_file.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600U);
    PlainClient client(server.url());
    client.send(get_bytes("/health"));
    EXPECT_EQ(client.read_answer().status, 200);
  }
  EXPECT_FALSE(std::filesystem::exists(options.socket_file));
}

TEST(HttpServer, CannotTakeAPortThatIsInUse) {
  RunningServer server;
  Router router({});
  HttpServerOptions options;
  options.port = static_cast<std::uint16_t>(std::stoi(server.url().substr(server.url().rfind(':') + 1)));
  EXPECT_THROW(HttpServer(router, server.metrics, options), Error);
}

}  // namespace
}  // namespace perigee
