#include "cli/generation.h"

#include <chrono>
#include <memory>
#include <random>

#include "base/error.h"
#include "base/hash.h"
#include "experts/streamed_experts.h"
#include "text/chat_tokens.h"

namespace perigee {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// 32 bits, which every reader of JSON keeps exactly.
std::uint64_t seed_of(const GenerationOptions& options) {
  return options.seed ? *options.seed : std::random_device()();
}

GenerationRequest request_for(const OpenModel& model, const Tokenizer& tokenizer,
                              const GenerationOptions& options, std::vector<TokenId> prompt,
                              std::uint64_t seed, Xxh3& hash) {
  const ChatTokens tokens = find_chat_tokens(tokenizer.vocabulary());
  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.sampling = options.sampling;
  request.sampling.seed = seed;
  if (options.greedy) request.sampling.temperature = 0;
  request.sampling.banned = ids_never_generated(tokenizer.vocabulary(), model.config().vocab_size);
  request.max_tokens = options.max_tokens;
  request.end_ids = {tokens.end_of_message, tokens.end_of_text};
  request.on_logits = [&hash](std::span<const float> logits) { hash.update(std::as_bytes(logits)); };
  return request;
}

// A moment, and what had been streamed by then.
struct Mark {
  Clock::time_point time;
  StreamingStatistics streaming;
};

Mark mark_now(const OpenModel& model) {
  const StreamedExperts* experts = model.weights().streamed();
  return {Clock::now(), experts != nullptr ? experts->statistics() : StreamingStatistics()};
}

// Runs the sequence; true if it was interrupted.
bool run_until_end(const OpenModel& model, Sequence& sequence, const GenerationListener& listener,
                   Mark& first_token, const CancelToken& cancel) {
  const auto on_token = [&](const SampledToken& token) {
    if (sequence.generated().size() == 1) first_token = mark_now(model);
    return listener.on_token(token.chosen.id);
  };
  const auto on_prompt = [&](std::size_t done, std::size_t total) {
    if (listener.on_prompt) listener.on_prompt(sequence.state(), done, total);
  };
  try {
    model.engine().run(sequence, on_token, on_prompt, cancel);
    return false;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInterrupted) throw;
    return true;
  }
}

}  // namespace

double Generation::tokens_per_second() const {
  return generated() > 1 && token_seconds > 0 ? static_cast<double>(generated() - 1) / token_seconds : 0;
}

Generation generate(const OpenModel& model, const Tokenizer& tokenizer, const GenerationOptions& options,
                    GenerationTask task, const GenerationListener& listener, const CancelToken& cancel) {
  Xxh3 hash;
  const std::uint64_t seed = seed_of(options);
  Sequence sequence(model.config(),
                    request_for(model, tokenizer, options, std::move(task.prompt), seed, hash));
  if (task.begin) sequence.resume(std::move(*task.begin));
  const std::size_t resumed = sequence.computed();
  const Clock::time_point start = Clock::now();
  Mark first_token;
  const bool interrupted = run_until_end(model, sequence, listener, first_token, cancel);
  const Mark end = mark_now(model);
  if (sequence.generated().empty()) first_token = end;
  std::optional<StreamingStatistics> streamed;
  if (model.weights().streamed() != nullptr) streamed = end.streaming.since(first_token.streaming);
  return {.ids = sequence.ids(),
          .prompt_ids = sequence.request().prompt.size(),
          .resumed_ids = resumed,
          .state = std::move(sequence.state()),
          .seed = seed,
          .ended = !interrupted && sequence.end() != GenerationEnd::kMaxTokens,
          .interrupted = interrupted,
          .logits_hash = hash.value(),
          .prompt_seconds = seconds_between(start, first_token.time),
          .token_seconds = seconds_between(first_token.time, end.time),
          .streamed = streamed};
}

Reply generate_reply(const OpenModel& model, const Tokenizer& tokenizer, const GenerationOptions& options,
                     ReplyTask task, const CancelToken& cancel) {
  ReplyParser parser(tokenizer, {.start = open_channel(task.generation.prompt, tokenizer),
                                 .tools_allowed = task.tools_allowed,
                                 .calls_so_far = task.calls_so_far,
                                 .stop = options.stop});
  std::vector<ReplyDelta> deltas;
  const auto pass_on = [&] {
    if (!deltas.empty()) task.on_deltas(deltas);
    deltas.clear();
  };
  const GenerationListener listener{.on_token =
                                        [&](TokenId id) {
                                          parser.push(std::span(&id, 1), deltas);
                                          pass_on();
                                          return !parser.done();
                                        },
                                    .on_prompt = task.on_prompt};
  Generation generation = generate(model, tokenizer, options, std::move(task.generation), listener, cancel);
  ReplyMessage message = parser.finish(generation.ended ? EndedBy::kStop : EndedBy::kMaxTokens, deltas);
  pass_on();
  return {std::move(message), std::move(generation)};
}

void add_generation_options(CLI::App& command, GenerationOptions& options) {
  constexpr const char* kGroup = "Sampling";
  const auto add = [&](const char* name, auto& value, const char* help) {
    return command.add_option(name, value, help)->group(kGroup)->capture_default_str();
  };
  SamplingOptions& sampling = options.sampling;
  command
      .add_option("--max-tokens", options.max_tokens,
                  "Most tokens of the answer [until it ends or the context is full]")
      ->type_name("N");
  CLI::Option* temperature =
      add("--temperature", sampling.temperature, "Logits are divided by it; 0: the most likely token");
  add("--top-p", sampling.top_p, "Only the most likely tokens that together have this probability; 1: off");
  add("--top-k", sampling.top_k, "Only this many of the most likely tokens; 0: off");
  add("--min-p", sampling.min_p,
      "Only tokens at least this fraction as likely as the most likely one; 0: off");
  add("--frequency-penalty", sampling.frequency_penalty, "Subtracted for every occurrence in the answer");
  add("--presence-penalty", sampling.presence_penalty, "Subtracted once for a token of the answer");
  add("--repetition-penalty", sampling.repetition_penalty, "Divides logits of tokens of the answer; 1: off");
  command.add_option("--seed", options.seed, "The same seed gives the same answer [another every time]")
      ->group(kGroup)
      ->type_name("UINT");
  command.add_flag("--greedy", options.greedy, "Always the most likely token; the same as --temperature 0")
      ->group(kGroup)
      ->excludes(temperature);
  command
      .add_option("--stop", options.stop, "End the answer where this text appears in its content; repeatable")
      ->type_name("TEXT")
      ->allow_extra_args(false);
}

}  // namespace perigee
