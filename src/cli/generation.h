// From the ids of a prompt to an answer: what `perigee run` and `perigee chat` share. Sequences come from
// engine/, replies are read by text/; this joins the two, counts and measures. Prints nothing.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/model_options.h"
#include "experts/streaming_statistics.h"
#include "text/reply_parser.h"

namespace perigee {

struct GenerationOptions {
  SamplingOptions sampling;
  std::optional<std::uint64_t> seed;  // unset: another one every time
  bool greedy = false;
  std::size_t max_tokens = 0;  // 0: until the reply ends or the context is full
  std::vector<std::string> stop;
};

// --max-tokens, --temperature, --top-p, --top-k, --min-p, the penalties, --seed, --greedy, --stop.
void add_generation_options(CLI::App& command, GenerationOptions& options);

struct GenerationTask {
  std::vector<TokenId> prompt;
  std::optional<SequenceState> begin;  // of a proper prefix of the prompt
};

struct GenerationListener {
  std::function<bool(TokenId)> on_token;                                                     // false: enough
  std::function<void(const SequenceState&, std::size_t done, std::size_t total)> on_prompt;  // may be empty
};

struct Generation {
  std::vector<TokenId> ids;  // prompt and generated
  std::size_t prompt_ids = 0;
  std::size_t resumed_ids = 0;  // of the prompt, that were not computed again
  SequenceState state;          // after the first state.position ids
  std::uint64_t seed = 0;
  bool ended = false;  // by the model or the listener, not by a limit
  bool interrupted = false;
  std::uint64_t logits_hash = 0;                     // XXH3-64 of the float32 logits of every token, in order
  double prompt_seconds = 0;                         // until the first token
  double token_seconds = 0;                          // from the first token to the last
  std::optional<StreamingStatistics> streamed = {};  // from the first token to the last, if experts are

  std::size_t generated() const { return ids.size() - prompt_ids; }
  double tokens_per_second() const;
};

Generation generate(const OpenModel& model, const Tokenizer& tokenizer, const GenerationOptions& options,
                    GenerationTask task, const GenerationListener& listener, const CancelToken& cancel);

struct ReplyTask {
  GenerationTask generation;
  bool tools_allowed = false;
  std::size_t calls_so_far = 0;
  std::function<void(std::span<const ReplyDelta>)> on_deltas;
  std::function<void(const SequenceState&, std::size_t done, std::size_t total)> on_prompt;  // may be empty
};

struct Reply {
  ReplyMessage message;
  Generation generation;
};

// Generates in the channel that the prompt leaves open, until the reply is complete.
Reply generate_reply(const OpenModel& model, const Tokenizer& tokenizer, const GenerationOptions& options,
                     ReplyTask task, const CancelToken& cancel);

}  // namespace perigee
