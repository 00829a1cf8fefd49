// A response in events. Items follow each other: one is open at a time, and what the events said of it is
// what the response at the end says.
#include <optional>

#include "serve/openai_json.h"
#include "serve/responses_json.h"
#include "serve/responses_reply.h"

namespace perigee {
namespace {

using Kind = ResponseItem::Kind;

class ResponsesStream final : public ReplySink {
 public:
  ResponsesStream(const ResponsesRequest& request, std::shared_ptr<HttpExchange> exchange)
      : response_(request.response), sealed_(request.sealed_reasoning), exchange_(std::move(exchange)) {
    exchange_->promise_stream(event_stream_promise("event: error\ndata: ", "\n\n"));
  }

  void started(const ReplyUsage& usage) override {
    streaming_ = true;
    HttpResponse head = event_stream_head();
    add_usage_headers(head.headers, usage);
    exchange_->start_stream(std::move(head), kHeartbeat);
    write("response.created", {{"response", response_}});
    write("response.in_progress", {{"response", response_}});
  }

  bool token(const SampledToken&, std::span<const ReplyDelta> deltas, const ReplyUsage&) override {
    for (const ReplyDelta& delta : deltas) add(delta);
    return reader_present_;
  }

  void finished(const ReplyMessage& message, std::span<const ReplyDelta> deltas,
                const ReplyUsage& usage) override {
    for (const ReplyDelta& delta : deltas) add(delta);
    // Text that was taken for reasoning and was the answer, or an answer without any text.
    if (!message_shown_ && shows_message(message)) show_message(message.content.value_or(""));
    close_item(last_status(message));
    end_response(response_, std::move(output_), message, usage);
    const bool cut = message.finish == FinishReason::kLength;
    write(cut ? "response.incomplete" : "response.completed", {{"response", response_}});
    exchange_->finish();
  }

  void failed(const ApiError& error) override {
    if (!streaming_) {
      exchange_->respond(error_response(error, ApiDialect::kOpenAi));
      return;
    }
    if (item_) output_.push_back(item_json(*item_, ItemStatus::kIncomplete, sealed_));
    response_["status"] = "failed";
    response_["error"] = {{"code", "server_error"}, {"message", error.what()}};
    response_["output"] = std::move(output_);
    write("response.failed", {{"response", response_}});
    exchange_->finish();
  }

 private:
  void add(const ReplyDelta& delta) {
    switch (delta.kind) {
      case ReplyDelta::Kind::kReasoning:
        if (!item_ || item_->kind != Kind::kReasoning) open_item(new_reasoning_item());
        return add_text("response.reasoning_text.delta", delta.text);
      case ReplyDelta::Kind::kContent:
        return show_message(delta.text);
      case ReplyDelta::Kind::kCallStart:
        ++calls_shown_;
        return open_item(new_call_item(delta.text, delta.id));
      case ReplyDelta::Kind::kCallArguments:
        return add_text("response.function_call_arguments.delta", delta.text);
    }
  }

  void show_message(const std::string& text) {
    if (!item_ || item_->kind != Kind::kMessage) open_item(new_message_item());
    message_shown_ = true;
    if (!text.empty()) add_text("response.output_text.delta", text);
  }

  void open_item(ResponseItem item) {
    close_item(ItemStatus::kCompleted);
    item_ = std::move(item);
    write("response.output_item.added",
          {{"output_index", output_.size()}, {"item", item_json(*item_, ItemStatus::kInProgress, false)}});
    if (item_->kind != Kind::kCall)
      write_of_item("response.content_part.added", {{"part", part_json(*item_, "")}});
  }

  void add_text(const char* type, const std::string& text) {
    item_->text += text;
    Json delta = {{"delta", text}};
    if (item_->kind == Kind::kMessage) delta["logprobs"] = Json::array();
    write_of_item(type, std::move(delta));
  }

  void close_item(ItemStatus status) {
    if (!item_) return;
    switch (item_->kind) {
      case Kind::kReasoning:
        write_of_item("response.reasoning_text.done", {{"text", item_->text}});
        break;
      case Kind::kMessage:
        write_of_item("response.output_text.done", {{"text", item_->text}, {"logprobs", Json::array()}});
        break;
      case Kind::kCall:
        write_of_item("response.function_call_arguments.done",
                      {{"name", item_->name}, {"arguments", item_->text}});
        break;
    }
    if (item_->kind != Kind::kCall) {
      write_of_item("response.content_part.done", {{"part", part_json(*item_, item_->text)}});
    }
    Json json = item_json(*item_, status, sealed_);
    write("response.output_item.done", {{"output_index", output_.size()}, {"item", json}});
    output_.push_back(std::move(json));
    item_.reset();
  }

  // Of the item that is open at the end. A call that the message does not have was cut.
  ItemStatus last_status(const ReplyMessage& message) const {
    const bool cut = item_ && item_->kind == Kind::kCall ? calls_shown_ > message.calls.size()
                                                         : message.finish == FinishReason::kLength;
    return cut ? ItemStatus::kIncomplete : ItemStatus::kCompleted;
  }

  void write_of_item(const char* type, Json fields) {
    Json place = {{"item_id", item_->id}, {"output_index", output_.size()}};
    if (item_->kind != Kind::kCall) place["content_index"] = 0;
    place.update(fields);
    write(type, std::move(place));
  }

  void write(const char* type, Json fields) {
    Json event = {{"type", type}, {"sequence_number", sequence_++}};
    event.update(fields);
    reader_present_ =
        exchange_->write(fmt::format("event: {}\n{}", type, event_text(event))) && reader_present_;
  }

  Json response_;
  const bool sealed_;
  std::shared_ptr<HttpExchange> exchange_;
  Json output_ = Json::array();       // items that are complete
  std::optional<ResponseItem> item_;  // the one that is open
  std::size_t sequence_ = 0;
  std::size_t calls_shown_ = 0;
  bool message_shown_ = false;
  bool streaming_ = false;
  bool reader_present_ = true;
};

}  // namespace

std::shared_ptr<ReplySink> responses_stream(const ResponsesRequest& request,
                                            std::shared_ptr<HttpExchange> exchange) {
  return std::make_shared<ResponsesStream>(request, std::move(exchange));
}

}  // namespace perigee
