// A whole answer: nothing is sent before the reply's end.
#include "serve/anthropic_reply.h"
#include "text/json_tree.h"

namespace perigee {
namespace {

bool is_json_object(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && text[first] == '{' && is_json_value(text);
}

// The model's own text wherever it is an object, so that numbers stay as they were written; the text of
// anything else goes into a member, as Anthropic advises for input that is broken.
std::string input_text(const std::string& arguments) {
  return is_json_object(arguments) ? arguments : json_text({{"INVALID_JSON", arguments}});
}

// `object`, which is not empty, with one more member.
std::string with_member(const Json& object, const char* key, const std::string& value) {
  std::string text = json_text(object);
  text.pop_back();
  return text + fmt::format(",\"{}\":{}}}", key, value);
}

class MessagesAnswer final : public ReplySink {
 public:
  MessagesAnswer(MessageFacts facts, std::shared_ptr<HttpExchange> exchange)
      : facts_(std::move(facts)), exchange_(std::move(exchange)) {}

  void started(const ReplyUsage&) override {}
  bool token(const SampledToken&, std::span<const ReplyDelta>, const ReplyUsage&) override { return true; }

  void finished(const ReplyMessage& message, std::span<const ReplyDelta>, const ReplyUsage& usage) override {
    Json json = message_json(facts_, &message, usage);
    json.erase("content");
    HttpResponse response;
    response.body = with_member(json, "content", content_text(message));
    exchange_->respond(std::move(response));
  }

  void failed(const ApiError& error) override {
    exchange_->respond(error_response(error, ApiDialect::kAnthropic));
  }

 private:
  std::string content_text(const ReplyMessage& message) const {
    std::vector<std::string> blocks;
    if (message.reasoning) blocks.push_back(json_text(thinking_block(*message.reasoning, facts_.id)));
    if (message.content && !message.content->empty())
      blocks.push_back(json_text(text_block(*message.content)));
    for (const ReplyCall& call : message.calls) {
      Json block = tool_use_block(call.name);
      block.erase("input");
      blocks.push_back(with_member(block, "input", input_text(call.arguments)));
    }
    return fmt::format("[{}]", fmt::join(blocks, ","));
  }

  const MessageFacts facts_;
  std::shared_ptr<HttpExchange> exchange_;
};

}  // namespace

std::shared_ptr<ReplySink> messages_answer(MessageFacts facts, std::shared_ptr<HttpExchange> exchange) {
  return std::make_shared<MessagesAnswer>(std::move(facts), std::move(exchange));
}

}  // namespace perigee
