// A message in events. Blocks follow each other: one is open at a time.
#include <optional>

#include "serve/anthropic_reply.h"

namespace perigee {
namespace {

std::string event_of(const char* type, Json fields) {
  Json event = {{"type", type}};
  event.update(fields);
  return fmt::format("event: {}\n{}", type, event_text(event));
}

class MessagesStream final : public ReplySink {
 public:
  MessagesStream(MessageFacts facts, std::shared_ptr<HttpExchange> exchange)
      : facts_(std::move(facts)), exchange_(std::move(exchange)) {
    exchange_->promise_stream(event_stream_promise("event: error\ndata: ", "\n\n"));
  }

  void started(const ReplyUsage& usage) override {
    streaming_ = true;
    exchange_->start_stream(event_stream_head(), event_of("ping", Json::object()));
    write("message_start", {{"message", message_json(facts_, nullptr, usage)}});
  }

  bool token(const SampledToken&, std::span<const ReplyDelta> deltas, const ReplyUsage&) override {
    for (const ReplyDelta& delta : deltas) add(delta);
    return reader_present_;
  }

  void finished(const ReplyMessage& message, std::span<const ReplyDelta> deltas,
                const ReplyUsage& usage) override {
    for (const ReplyDelta& delta : deltas) add(delta);
    // Text that was taken for a thought and was the answer.
    if (!text_shown_ && message.content) add_text(*message.content);
    close_block();
    write("message_delta", {{"delta", stop_json(facts_, &message)}, {"usage", message_usage_json(usage)}});
    write("message_stop", Json::object());
    exchange_->finish();
  }

  void failed(const ApiError& error) override {
    if (!streaming_) {
      exchange_->respond(error_response(error, ApiDialect::kAnthropic));
      return;
    }
    exchange_->write(fmt::format("event: error\ndata: {}\n\n", error_json(error, ApiDialect::kAnthropic)));
    exchange_->finish();
  }

 private:
  enum class Block { kThinking, kText, kCall };

  void add(const ReplyDelta& delta) {
    switch (delta.kind) {
      case ReplyDelta::Kind::kReasoning:
        if (open_ != Block::kThinking) open_block(Block::kThinking, thinking_block("", ""));
        return write_delta("thinking_delta", "thinking", delta.text);
      case ReplyDelta::Kind::kContent:
        return add_text(delta.text);
      case ReplyDelta::Kind::kCallStart:
        return open_block(Block::kCall, tool_use_block(delta.text));
      case ReplyDelta::Kind::kCallArguments:
        return write_delta("input_json_delta", "partial_json", delta.text);
    }
  }

  void add_text(const std::string& text) {
    if (text.empty()) return;
    if (open_ != Block::kText) open_block(Block::kText, text_block(""));
    text_shown_ = true;
    write_delta("text_delta", "text", text);
  }

  void open_block(Block kind, Json block) {
    close_block();
    open_ = kind;
    write("content_block_start", {{"index", index_}, {"content_block", std::move(block)}});
  }

  void write_delta(const char* type, const char* key, const std::string& text) {
    write("content_block_delta", {{"index", index_}, {"delta", {{"type", type}, {key, text}}}});
  }

  void close_block() {
    if (!open_) return;
    if (open_ == Block::kThinking) write_delta("signature_delta", "signature", facts_.id);
    write("content_block_stop", {{"index", index_++}});
    open_.reset();
  }

  void write(const char* type, Json fields) {
    reader_present_ = exchange_->write(event_of(type, std::move(fields))) && reader_present_;
  }

  const MessageFacts facts_;
  std::shared_ptr<HttpExchange> exchange_;
  std::optional<Block> open_;
  std::size_t index_ = 0;  // of the block that is open or comes next
  bool text_shown_ = false;
  bool streaming_ = false;
  bool reader_present_ = true;
};

}  // namespace

std::shared_ptr<ReplySink> messages_stream(MessageFacts facts, std::shared_ptr<HttpExchange> exchange) {
  return std::make_shared<MessagesStream>(std::move(facts), std::move(exchange));
}

}  // namespace perigee
