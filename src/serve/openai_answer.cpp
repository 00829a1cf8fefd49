// A whole answer: nothing is sent before the reply's end.
#include "serve/openai_json.h"
#include "serve/openai_stream.h"

namespace perigee {
namespace {

class ChatAnswer final : public ReplySink {
 public:
  ChatAnswer(const ServeContext& context, bool logprobs, std::shared_ptr<HttpExchange> exchange)
      : context_(context), logprobs_(logprobs), exchange_(std::move(exchange)) {}

  void started(const ReplyUsage&) override {}

  bool token(const SampledToken& token, std::span<const ReplyDelta>, const ReplyUsage&) override {
    if (logprobs_) tokens_.push_back(logprob_json(token, context_.tokenizer.vocabulary()));
    return true;
  }

  void finished(const ReplyMessage& message, std::span<const ReplyDelta>,
                const ReplyUsage& counted) override {
    ReplyUsage usage = counted;
    if (!message.reasoning) usage.reasoning_tokens = 0;  // what looked like it was the answer
    Json choice = {{"index", 0}, {"message", message_json(message)}};
    if (logprobs_) choice["logprobs"] = {{"content", std::move(tokens_)}};
    choice["finish_reason"] = finish_reason_name(message.finish);
    HttpResponse response;
    add_usage_headers(response.headers, usage);
    response.body = json_text({{"id", new_answer_id("chatcmpl-")},
                               {"object", "chat.completion"},
                               {"created", unix_seconds()},
                               {"model", context_.model.names.front()},
                               {"choices", Json::array({std::move(choice)})},
                               {"usage", usage_json(usage)}});
    exchange_->respond(std::move(response));
  }

  void failed(const ApiError& error) override {
    exchange_->respond(error_response(error, ApiDialect::kOpenAi));
  }

 private:
  static Json message_json(const ReplyMessage& message) {
    Json json = {{"role", "assistant"}, {"content", message.content ? Json(*message.content) : Json()}};
    if (message.reasoning) json["reasoning_content"] = *message.reasoning;
    if (!message.calls.empty()) json["tool_calls"] = calls_json(message.calls);
    return json;
  }

  const ServeContext& context_;
  const bool logprobs_;
  std::shared_ptr<HttpExchange> exchange_;
  Json tokens_ = Json::array();
};

}  // namespace

std::shared_ptr<ReplySink> chat_answer(const ServeContext& context, const ChatRequest& request,
                                       std::shared_ptr<HttpExchange> exchange) {
  return std::make_shared<ChatAnswer>(context, request.logprobs, std::move(exchange));
}

}  // namespace perigee
