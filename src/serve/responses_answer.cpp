// A whole response: nothing is sent before the reply's end.
#include "serve/openai_json.h"
#include "serve/responses_json.h"
#include "serve/responses_reply.h"

namespace perigee {
namespace {

std::vector<ResponseItem> items_of(const ReplyMessage& message) {
  std::vector<ResponseItem> items;
  if (message.reasoning) {
    items.push_back(new_reasoning_item());
    items.back().text = *message.reasoning;
  }
  if (shows_message(message)) {
    items.push_back(new_message_item());
    items.back().text = message.content.value_or("");
  }
  for (const ReplyCall& call : message.calls) {
    items.push_back(new_call_item(call.name, call.id));
    items.back().text = call.arguments;
  }
  return items;
}

class ResponsesAnswer final : public ReplySink {
 public:
  ResponsesAnswer(const ResponsesRequest& request, std::shared_ptr<HttpExchange> exchange)
      : response_(request.response), sealed_(request.sealed_reasoning), exchange_(std::move(exchange)) {}

  void started(const ReplyUsage&) override {}

  bool token(const SampledToken&, std::span<const ReplyDelta>, const ReplyUsage&) override { return true; }

  void finished(const ReplyMessage& message, std::span<const ReplyDelta>,
                const ReplyUsage& counted) override {
    ReplyUsage usage = counted;
    if (!message.reasoning) usage.reasoning_tokens = 0;  // what looked like it was the answer
    Json output = Json::array();
    for (const ResponseItem& item : items_of(message)) {
      output.push_back(item_json(item, ItemStatus::kCompleted, sealed_));
    }
    // A call that was cut is not in the message, so those that are there are complete.
    const bool cut = message.finish == FinishReason::kLength && message.calls.empty();
    if (cut && !output.empty()) output.back()["status"] = "incomplete";
    end_response(response_, std::move(output), message, usage);
    HttpResponse response;
    add_usage_headers(response.headers, usage);
    response.body = json_text(response_);
    exchange_->respond(std::move(response));
  }

  void failed(const ApiError& error) override {
    exchange_->respond(error_response(error, ApiDialect::kOpenAi));
  }

 private:
  Json response_;
  const bool sealed_;
  std::shared_ptr<HttpExchange> exchange_;
};

}  // namespace

std::shared_ptr<ReplySink> responses_answer(const ResponsesRequest& request,
                                            std::shared_ptr<HttpExchange> exchange) {
  return std::make_shared<ResponsesAnswer>(request, std::move(exchange));
}

}  // namespace perigee
