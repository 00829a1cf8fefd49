#include "serve/openai_stream.h"

#include "serve/openai_json.h"

namespace perigee {
namespace {

class ChatStream final : public ReplySink {
 public:
  ChatStream(const ServeContext& context, const ChatRequest& request, std::shared_ptr<HttpExchange> exchange)
      : vocabulary_(context.tokenizer.vocabulary()),
        model_(context.model.names.front()),
        options_(request.stream),
        logprobs_(request.logprobs),
        exchange_(std::move(exchange)) {
    exchange_->promise_stream(chunk_stream_promise());
  }

  void started(const ReplyUsage& usage) override {
    streaming_ = true;
    HttpResponse head = event_stream_head();
    add_usage_headers(head.headers, usage);
    exchange_->start_stream(std::move(head), kHeartbeat);
    write_chunk(choice_of({{"role", "assistant"}, {"content", ""}}), usage);
  }

  bool token(const SampledToken& token, std::span<const ReplyDelta> deltas,
             const ReplyUsage& usage) override {
    if (!deltas.empty()) write_boundary(deltas.front(), usage);
    if (options_.include_internal_content) ids_.push_back(token.chosen.id);
    if (logprobs_) tokens_.push_back(logprob_json(token, vocabulary_));
    for (const ReplyDelta& delta : deltas) write_increment(delta, usage);
    return reader_present_;
  }

  void finished(const ReplyMessage& message, std::span<const ReplyDelta> deltas,
                const ReplyUsage& usage) override {
    if (!deltas.empty()) write_boundary(deltas.front(), usage);
    for (const ReplyDelta& delta : deltas) write_increment(delta, usage);
    Json choice = choice_of(Json::object());
    choice["finish_reason"] = finish_reason_name(message.finish);
    choice["usage"] = usage_json(usage);
    add_logprobs(choice);
    write_chunk(std::move(choice), usage);
    if (options_.include_usage) write_usage(usage);
    exchange_->write(kLastEvent);
    exchange_->finish();
  }

  void failed(const ApiError& error) override {
    if (!streaming_) {
      exchange_->respond(error_response(error, ApiDialect::kOpenAi));
      return;
    }
    exchange_->write("data: " + error_json(error, ApiDialect::kOpenAi) + "\n\n" + kLastEvent);
    exchange_->finish();
  }

 private:
  static Json choice_of(Json delta) {
    return {{"index", 0}, {"delta", std::move(delta)}, {"finish_reason", nullptr}};
  }

  static Json delta_json(const ReplyDelta& delta) {
    switch (delta.kind) {
      case ReplyDelta::Kind::kReasoning:
        return {{"reasoning_content", delta.text}};
      case ReplyDelta::Kind::kContent:
        return {{"content", delta.text}};
      case ReplyDelta::Kind::kCallStart:
        return call_json({{"index", delta.call},
                          {"id", delta.id},
                          {"type", "function"},
                          {"function", {{"name", delta.text}, {"arguments", ""}}}});
      case ReplyDelta::Kind::kCallArguments:
        break;
    }
    return call_json({{"index", delta.call}, {"function", {{"arguments", delta.text}}}});
  }

  static Json call_json(Json call) { return {{"tool_calls", Json::array({std::move(call)})}}; }

  // One empty piece of reasoning says that there will be no more; the ids that led out of the channel are
  // its own, the token that `next` comes from is not.
  void write_boundary(const ReplyDelta& next, const ReplyUsage& usage) {
    const bool reasoning = next.kind == ReplyDelta::Kind::kReasoning;
    if (reasoning) reasoned_ = true;
    if (reasoning || !reasoned_ || boundary_written_) return;
    boundary_written_ = true;
    write_delta({{"reasoning_content", ""}}, usage);
  }

  void write_increment(const ReplyDelta& delta, const ReplyUsage& usage) {
    write_boundary(delta, usage);
    write_delta(delta_json(delta), usage);
  }

  void write_delta(Json delta, const ReplyUsage& usage) {
    if (!ids_.empty()) delta["internal_content"] = {{"token_ids", std::exchange(ids_, {})}};
    Json choice = choice_of(std::move(delta));
    add_logprobs(choice);
    write_chunk(std::move(choice), usage);
  }

  // Those of all tokens since the last chunk that had some.
  void add_logprobs(Json& choice) {
    if (!tokens_.empty()) choice["logprobs"] = {{"content", std::exchange(tokens_, Json::array())}};
  }

  Json chunk_of(Json choices) const {
    return {{"id", id_},
            {"object", "chat.completion.chunk"},
            {"created", created_},
            {"model", model_},
            {"choices", std::move(choices)}};
  }

  void write_chunk(Json choice, const ReplyUsage& usage) {
    Json chunk = chunk_of(Json::array({std::move(choice)}));
    if (options_.continuous_usage) chunk["usage"] = usage_json(usage);
    reader_present_ = exchange_->write(event_text(chunk)) && reader_present_;
  }

  void write_usage(const ReplyUsage& usage) {
    Json chunk = chunk_of(Json::array());
    chunk["usage"] = usage_json(usage);
    exchange_->write(event_text(chunk));
  }

  const Vocabulary& vocabulary_;
  const std::string model_;
  const StreamOptions options_;
  const bool logprobs_;
  std::shared_ptr<HttpExchange> exchange_;
  const std::string id_ = new_answer_id("chatcmpl-");
  const std::int64_t created_ = unix_seconds();
  bool streaming_ = false;
  bool reader_present_ = true;
  bool reasoned_ = false;
  bool boundary_written_ = false;
  std::vector<TokenId> ids_;     // not sent yet
  Json tokens_ = Json::array();  // logprobs not sent yet
};

}  // namespace

std::shared_ptr<ReplySink> chat_stream(const ServeContext& context, const ChatRequest& request,
                                       std::shared_ptr<HttpExchange> exchange) {
  return std::make_shared<ChatStream>(context, request, std::move(exchange));
}

}  // namespace perigee
