#include "serve/reply_job.h"

#include <algorithm>

namespace perigee {
namespace {

// Where a state is worth keeping: behind the system messages that a conversation begins with, which other
// conversations share, and behind its last message, which its next turn shares.
std::vector<std::size_t> message_ends(std::span<const TokenId> prompt, const Conversation& conversation,
                                      const Vocabulary& vocabulary) {
  const TokenId end = find_chat_tokens(vocabulary).end_of_message;
  std::vector<std::size_t> ends;
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    if (prompt[i] == end) ends.push_back(i + 1);
  }
  const auto& messages = conversation.messages;
  const auto first = std::find_if(messages.begin(), messages.end(),
                                  [](const Message& message) { return message.role != Role::kSystem; });
  // Messages that the prompt begins with beyond those of the conversation: tools, effort.
  const std::size_t added =
      (conversation.tools_json.empty() ? 0 : 1) + (conversation.thinking && conversation.effort ? 1 : 0);
  const std::size_t leading = added + static_cast<std::size_t>(first - messages.begin());
  if (leading == 0 || ends.size() <= leading) return ends.empty() ? ends : std::vector{ends.back()};
  return {ends[leading - 1], ends.back()};
}

// Between the engine and a sink: ids become deltas, and the reply's end is noticed.
class ReplyListener final : public JobListener {
 public:
  ReplyListener(const ServeContext& context, const ReplyRequest& request, std::shared_ptr<ReplySink> sink)
      : metrics_(context.metrics),
        sink_(std::move(sink)),
        parser_(context.tokenizer, {.start = open_channel(request.prompt.ids, context.tokenizer),
                                    .tools_allowed = request.tools_allowed,
                                    .calls_so_far = request.calls_so_far,
                                    .stop = request.stop}) {
    usage_.prompt_tokens = counted_prompt_tokens(request.prompt.ids, context.tokenizer.vocabulary());
  }

  void on_started(std::size_t cached) override {
    usage_.cached_tokens = std::min(cached, usage_.prompt_tokens);
    sink_->started(usage_);
  }

  bool on_token(const SampledToken& token) override {
    ++usage_.completion_tokens;
    deltas_.clear();
    parser_.push(std::span(&token.chosen.id, 1), deltas_);
    count_reasoning();
    reader_left_ = !sink_->token(token, deltas_, usage_);
    return !reader_left_ && !parser_.done();
  }

  void on_finished(const JobSummary& outcome) override {
    JobSummary summary = outcome;
    summary.cancelled = summary.cancelled || reader_left_;  // whichever was noticed first
    const bool by_itself = parser_.done() || summary.end == GenerationEnd::kEndToken;
    deltas_.clear();
    const ReplyMessage message = parser_.finish(by_itself ? EndedBy::kStop : EndedBy::kMaxTokens, deltas_);
    for (const std::string& note : message.notes) metrics_.count_reply_note(note);
    if (summary.failure || summary.cancelled) {
      metrics_.count_job(summary, summary.failure ? "error" : "abort");
      sink_->failed(api_error_of(summary));
    } else {
      metrics_.count_job(summary, finish_reason_name(message.finish));
      count_reasoning();
      sink_->finished(message, deltas_, usage_);
    }
  }

 private:
  void count_reasoning() {
    const auto reasons = [](const ReplyDelta& delta) { return delta.kind == ReplyDelta::Kind::kReasoning; };
    if (std::any_of(deltas_.begin(), deltas_.end(), reasons)) {
      usage_.reasoning_tokens = usage_.completion_tokens;
    }
  }

  ServerMetrics& metrics_;
  std::shared_ptr<ReplySink> sink_;
  ReplyParser parser_;
  ReplyUsage usage_;
  std::vector<ReplyDelta> deltas_;  // of the latest token
  bool reader_left_ = false;
};

Job job_of(ReplyRequest request, std::shared_ptr<JobListener> listener) {
  Job job;
  job.request.prompt = std::move(request.prompt.ids);
  job.request.sampling = std::move(request.sampling);
  job.request.max_tokens = request.max_tokens;
  job.request.top_logprobs = request.top_logprobs;
  job.client = std::move(request.client);
  job.priority = request.priority;
  job.snapshot_positions = std::move(request.snapshot_positions);
  job.snapshot_end = true;
  job.listener = std::move(listener);
  return job;
}

}  // namespace

ReplyRequest reply_request_of(const Conversation& conversation, const Tokenizer& tokenizer) {
  ReplyRequest request;
  request.prompt = PromptEncoder(tokenizer).encode(build_prompt(conversation));
  request.tools_allowed = !conversation.tool_names.empty() && conversation.tool_choice != ToolChoice::kNone;
  for (const Message& message : conversation.messages) request.calls_so_far += message.calls.size();
  request.snapshot_positions = message_ends(request.prompt.ids, conversation, tokenizer.vocabulary());
  return request;
}

// Clients recognise a prompt that has become too long by the words "prompt is too long" (Anthropic's) or
// "this model's maximum context length is" (OpenAI's) and then shorten it.
std::size_t checked_max_tokens(const ServeContext& context, std::size_t prompt_ids, std::size_t wanted,
                               const std::string& wanted_param, const std::string& prompt_param) {
  const std::size_t whole = context.model.context_tokens;
  if (prompt_ids >= whole) {
    throw ApiError(
        ApiFault::kContextLength,
        fmt::format("{}: the prompt is too long: {} tokens; this model's maximum context length is {}",
                    prompt_param, prompt_ids, whole),
        prompt_param);
  }
  const std::size_t left = whole - prompt_ids;
  if (wanted > left) {
    throw ApiError(
        ApiFault::kContextLength,
        fmt::format("{} is {}; this model's maximum context length is {}, of which the prompt takes {}",
                    wanted_param, wanted, whole, prompt_ids),
        wanted_param);
  }
  return wanted > 0 ? wanted : std::min(left, context.options.default_max_tokens);
}

void submit_job(const ServeContext& context, Job job, const std::shared_ptr<HttpExchange>& exchange) {
  const std::variant<JobId, Refusal> outcome = context.service.submit(std::move(job));
  if (const auto* refusal = std::get_if<Refusal>(&outcome)) throw api_error_of(*refusal);
  exchange->on_gone([&context, id = std::get<JobId>(outcome)] {
    context.metrics.client_left();
    context.service.cancel(id);
  });
}

void start_reply(const ServeContext& context, ReplyRequest request, std::shared_ptr<ReplySink> sink,
                 const std::shared_ptr<HttpExchange>& exchange) {
  auto listener = std::make_shared<ReplyListener>(context, request, std::move(sink));
  submit_job(context, job_of(std::move(request), std::move(listener)), exchange);
}

}  // namespace perigee
