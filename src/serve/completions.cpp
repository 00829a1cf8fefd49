#include "serve/completions.h"

#include "serve/openai_json.h"
#include "serve/openai_request.h"
#include "serve/request_fields.h"
#include "text/stop_strings.h"
#include "text/utf8.h"

namespace perigee {
namespace {

constexpr std::int64_t kMostLogprobs = 5;

struct CompletionRequest {
  std::vector<TokenId> prompt;
  SamplingOptions sampling;
  std::vector<std::string> stop;
  std::size_t max_tokens = 0;
  std::string max_tokens_param;
  std::optional<std::size_t> logprobs;
  bool echo = false;
  StreamOptions stream;
  int priority = 0;
};

CompletionRequest read_completion(const JsonNode& request, const ServeContext& context) {
  check_request_model(request, context.model);
  CompletionRequest completion;
  completion.stream = read_stream_options(request);
  check_one_choice(request);
  must_be_absent(request, "suffix", "leave it out");
  if (find_integer(request, "best_of").value_or(1) != 1) refuse("best_of", "must be 1");
  completion.echo = find_boolean(request, "echo", "").value_or(false);
  completion.sampling = read_sampling(request, context.options.vendor_contract);
  completion.stop = read_stop(request);
  completion.priority = read_priority(request, context.options.urgent_requests);
  completion.max_tokens = read_max_tokens(request, completion.max_tokens_param);
  if (const auto logprobs = find_integer(request, "logprobs", 0, kMostLogprobs)) {
    completion.logprobs = static_cast<std::size_t>(*logprobs);
  }
  completion.prompt = read_raw_prompt(request, context.tokenizer);
  return completion;
}

// The old form of logprobs: four lists side by side.
struct LogprobLists {
  Json tokens = Json::array(), token_logprobs = Json::array(), top_logprobs = Json::array(),
       text_offset = Json::array();

  void add(const SampledToken& token, std::size_t offset, const Vocabulary& vocabulary) {
    tokens.push_back(token_text(token.chosen.id, vocabulary));
    token_logprobs.push_back(finite_logprob(token.chosen.log_probability));
    Json top = Json::object();
    for (const TokenProbability& one : token.top) {
      top[token_text(one.id, vocabulary)] = finite_logprob(one.log_probability);
    }
    top_logprobs.push_back(std::move(top));
    text_offset.push_back(offset);
  }

  Json take() {
    Json json = {{"tokens", std::move(tokens)},
                 {"token_logprobs", std::move(token_logprobs)},
                 {"top_logprobs", std::move(top_logprobs)},
                 {"text_offset", std::move(text_offset)}};
    *this = {};
    return json;
  }
};

class CompletionListener final : public JobListener {
 public:
  CompletionListener(const ServeContext& context, const CompletionRequest& request,
                     std::shared_ptr<HttpExchange> exchange)
      : context_(context),
        vocabulary_(context.tokenizer.vocabulary()),
        tokens_(find_chat_tokens(vocabulary_)),
        options_(request.stream),
        wants_logprobs_(request.logprobs.has_value()),
        exchange_(std::move(exchange)),
        stop_(request.stop) {
    usage_.prompt_tokens = request.prompt.size();
    if (options_.wanted) exchange_->promise_stream(chunk_stream_promise());
    if (request.echo) text_ = replace_invalid_utf8(context.tokenizer.decode_bytes(request.prompt));
  }

  void on_started(std::size_t cached) override {
    usage_.cached_tokens = cached;
    if (!options_.wanted) return;
    streaming_ = true;
    HttpResponse head = event_stream_head();
    add_usage_headers(head.headers, usage_);
    exchange_->start_stream(std::move(head), kHeartbeat);
  }

  bool on_token(const SampledToken& token) override {
    ++usage_.completion_tokens;
    if (wants_logprobs_) logprobs_.add(token, shown_ + text_.size(), vocabulary_);
    if (!tokens_.ends_reply(token.chosen.id)) {
      std::string characters;
      characters_.push(vocabulary_.bytes(token.chosen.id), characters);
      stop_.push(characters, text_);
    }
    const bool reader_present = !options_.wanted || text_.empty() || write_chunk(nullptr);
    return reader_present && !stop_.matched();
  }

  void on_finished(const JobSummary& summary) override {
    if (summary.failure || summary.cancelled) {
      context_.metrics.count_job(summary, summary.failure ? "error" : "abort");
      failed(summary);
      return;
    }
    stop_.end_text(text_);
    const bool by_itself = stop_.matched() || summary.end != GenerationEnd::kMaxTokens;
    const char* reason = finish_reason_name(by_itself ? FinishReason::kStop : FinishReason::kLength);
    context_.metrics.count_job(summary, reason);
    if (options_.wanted) {
      end_stream(reason);
    } else {
      answer(reason);
    }
  }

 private:
  Json answer_of(Json choices) const {
    return {{"id", id_},
            {"object", "text_completion"},
            {"created", created_},
            {"model", context_.model.names.front()},
            {"choices", std::move(choices)}};
  }

  Json choice_of(const char* reason) {
    shown_ += text_.size();
    Json choice = {{"index", 0}, {"text", std::exchange(text_, {})}};
    choice["logprobs"] = wants_logprobs_ ? logprobs_.take() : Json();
    choice["finish_reason"] = reason != nullptr ? Json(reason) : Json();
    return choice;
  }

  bool write_chunk(const char* reason) {
    Json chunk = answer_of(Json::array({choice_of(reason)}));
    if (options_.continuous_usage) chunk["usage"] = usage_json(usage_);
    return exchange_->write(event_text(chunk));
  }

  void end_stream(const char* reason) {
    write_chunk(reason);
    if (options_.include_usage) {
      Json chunk = answer_of(Json::array());
      chunk["usage"] = usage_json(usage_);
      exchange_->write(event_text(chunk));
    }
    exchange_->write(kLastEvent);
    exchange_->finish();
  }

  void answer(const char* reason) {
    Json json = answer_of(Json::array({choice_of(reason)}));
    json["usage"] = usage_json(usage_);
    HttpResponse response;
    add_usage_headers(response.headers, usage_);
    response.body = json_text(json);
    exchange_->respond(std::move(response));
  }

  void failed(const JobSummary& summary) {
    const ApiError error = api_error_of(summary);
    if (!streaming_) {
      exchange_->respond(error_response(error, ApiDialect::kOpenAi));
      return;
    }
    exchange_->write("data: " + error_json(error, ApiDialect::kOpenAi) + "\n\n" + kLastEvent);
    exchange_->finish();
  }

  const ServeContext& context_;
  const Vocabulary& vocabulary_;
  const ChatTokens tokens_;
  const StreamOptions options_;
  const bool wants_logprobs_;
  std::shared_ptr<HttpExchange> exchange_;
  const std::string id_ = new_answer_id("cmpl-");
  const std::int64_t created_ = unix_seconds();
  ReplyUsage usage_;
  Utf8Stream characters_;
  StopStrings stop_;
  LogprobLists logprobs_;
  std::string text_;       // not sent yet
  std::size_t shown_ = 0;  // bytes of text that were sent
  bool streaming_ = false;
};

}  // namespace

std::vector<TokenId> read_raw_prompt(const JsonNode& request, const Tokenizer& tokenizer) {
  const JsonNode* prompt = find_set(request, "prompt");
  if (prompt == nullptr) refuse("prompt", "is missing");
  // An array of one prompt is that prompt.
  const auto holds = [&](JsonKind kind) { return !prompt->items.empty() && prompt->items[0].is(kind); };
  if (prompt->is(JsonKind::kArray) && (holds(JsonKind::kString) || holds(JsonKind::kArray))) {
    if (prompt->items.size() != 1) refuse("prompt", "has several prompts; send one in a request");
    prompt = &prompt->items[0];
  }
  if (prompt->is(JsonKind::kString)) return tokenizer.encode_markup(prompt->text);
  return read_ids(*prompt, "prompt", tokenizer.vocabulary());
}

void answer_completion(const Router& router, const ServeContext& context, const HttpRequest& request,
                       const std::shared_ptr<HttpExchange>& exchange) {
  const JsonTree body = parse_body(request.body);
  CompletionRequest completion = read_completion(body.root(), context);
  if (completion.prompt.empty()) refuse("prompt", "is empty; send at least one token");
  Job job;
  job.request.max_tokens = checked_max_tokens(context, completion.prompt.size(), completion.max_tokens,
                                              completion.max_tokens_param, "prompt");
  job.listener = std::make_shared<CompletionListener>(context, completion, exchange);
  job.request.prompt = std::move(completion.prompt);
  job.request.sampling = std::move(completion.sampling);
  job.request.top_logprobs = completion.logprobs.value_or(0);
  job.client = router.client_of(request);
  job.priority = completion.priority;
  submit_job(context, std::move(job), exchange);
}

}  // namespace perigee
