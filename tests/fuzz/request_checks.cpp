// Bodies of requests to the server, through all routes that read one, with a scripted model.
#include <array>
#include <cstdlib>
#include <string>

#include "fuzz/request_checks.h"
#include "fuzz/small_vocabulary.h"
#include "serve/dialect_fixture.h"
#include "text/json_tree.h"

namespace perigee::fuzz {
namespace {

// Ends the process in every kind of build, so that libFuzzer keeps the input.
void must_hold(bool condition) {
  if (!condition) std::abort();
}

constexpr std::array kPaths = {"/v1/chat/completions", "/v1/completions",           "/v1/responses",
                               "/v1/messages",         "/v1/messages/count_tokens", "/tokenize",
                               "/detokenize"};

void check_answer(const test::RecordedExchange& exchange) {
  must_hold(exchange.ended && exchange.answers == 1);
  must_hold(exchange.head.status == 200 || exchange.head.status == 400 || exchange.head.status == 404);
  must_hold(exchange.streaming || is_json_value(exchange.head.body));
  if (!exchange.streaming) return;
  const std::vector<nlohmann::json> events = test::events_of(exchange.text());
  must_hold(!events.empty());
  for (const nlohmann::json& event : events) must_hold(event.is_object());
  const std::string last = events.back().value("type", "");  // of streams whose events have types
  must_hold(last == "response.completed" || last == "response.incomplete" || last == "message_stop" ||
            exchange.text().ends_with("data: [DONE]\n\n"));
}

}  // namespace

void check_request_body(std::span<const std::uint8_t> input) {
  const std::string body(reinterpret_cast<const char*>(input.data()), input.size());
  static test::DialectFixture server(byte_tokenizer());
  server.context.model.context_tokens = 100'000;
  server.service.script =
      byte_tokenizer().encode_markup("a<|close|>think<|sep|><|open|>response<|sep|>b<|end_of_msg|>");
  for (const char* path : kPaths) {
    server.service.jobs.clear();
    check_answer(*server.post(path, body));
  }
}

}  // namespace perigee::fuzz
