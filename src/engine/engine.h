// Sequences and steps: the part of serving that knows tokens but neither HTTP nor text. One step runs prompts
// and single tokens of many sequences together; what a sequence generates does not depend on its company.
// Deliberately no scheduler: who is in a step is the caller's choice.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/cancel.h"
#include "engine/sampler.h"
#include "engine/snapshot.h"
#include "model/forward.h"

namespace perigee {

// Stands in for the embedding of the prompt's id at `index`: a part of an image.
struct PromptEmbedding {
  std::size_t index = 0;
  std::vector<float> values;  // [hidden]
};

struct GenerationRequest {
  std::vector<std::uint32_t> prompt;
  std::vector<PromptEmbedding> embeddings;  // ascending by index
  SamplingOptions sampling;
  std::size_t max_tokens = 0;          // 0: until an end token or the context is full
  std::vector<std::uint32_t> end_ids;  // generation stops after one of these; it is reported too
  std::size_t top_logprobs = 0;
  // Sees the logits [vocab_size] that each token is sampled from, before it is; may be empty.
  std::function<void(std::span<const float> logits)> on_logits;
};

// kUsage naming what the model cannot do: an empty prompt, one that fills the context, an id that the
// vocabulary does not have, an embedding that fits nowhere, a sampling option out of range. Allocates
// nothing.
void check_request(const K3Config& config, const GenerationRequest& request);

enum class GenerationEnd {
  kEndToken,
  kMaxTokens,  // or the context is full
  kStopped,    // by the caller
  kFailed,     // see Sequence::failure()
};

// One sequence being generated: its ids, its state and how far its prompt has been read.
class Sequence {
 public:
  // check_request(), then the state of the empty sequence.
  Sequence(const K3Config& config, GenerationRequest request);

  bool in_prompt() const { return computed_ < request_.prompt.size(); }
  bool finished() const { return end_.has_value(); }
  std::optional<GenerationEnd> end() const { return end_; }
  void stop() { end_ = GenerationEnd::kStopped; }  // the caller has seen enough, e.g. a stop string
  // What went wrong in this sequence alone, or in a step that it took part in; its state is of no more use.
  std::exception_ptr failure() const { return failure_; }

  const GenerationRequest& request() const { return request_; }
  const std::vector<SampledToken>& generated() const { return generated_; }
  const std::vector<std::uint32_t>& ids() const { return ids_; }  // prompt and generated
  SequenceState& state() { return state_; }
  const SequenceState& state() const { return state_; }
  std::size_t computed() const { return computed_; }  // ids whose state is in state()

  // Begins behind a prefix of the prompt that is already computed: state.position tokens. At least one token
  // must be left, because the state holds no logits. kUsage otherwise, or if the sequence has already begun.
  void resume(SequenceState state);

 private:
  friend class Engine;
  void fail_with(std::exception_ptr failure);
  void append(SampledToken token);

  GenerationRequest request_;
  std::vector<std::uint32_t> ids_;
  std::vector<SampledToken> generated_;
  SequenceState state_;
  std::size_t computed_ = 0;
  std::size_t most_ids_ = 0;
  std::optional<GenerationEnd> end_;
  std::exception_ptr failure_;
};

class Engine {
 public:
  struct Options {
    std::size_t prompt_chunk = 256;  // most prompt tokens of a sequence in one step; no influence on results
    RoutingObserver observe_routing = {};  // of every step; may be empty
    ForesightObserver observe_foresight = {};
  };
  // Keeps a reference to the model. kUsage if the chunk is 0.
  Engine(const Model& model, Options options);

  // Moves every unfinished sequence on: the next chunk of its prompt, or one token. A sequence whose logits
  // are broken, or that needs an expert that cannot be read, ends with kFailed and its own cause and leaves
  // the others alone. If the step as a whole fails, all that took part end so, because their states may be
  // moved on in part, and the error is thrown.
  // `prompt_tokens`: empty, or for each sequence the most that this step reads of its prompt, at least 1;
  // prompt_chunk holds as well.
  void step(std::span<Sequence* const> sequences, std::span<const std::size_t> prompt_tokens = {}) const;

  // Runs one sequence to its end. `on_token` returns false to stop; `on_prompt` hears of progress in the
  // prompt; both may be empty. Throws what made the sequence fail; kInterrupted if cancelled, and the
  // sequence can be run on.
  void run(Sequence& sequence, const std::function<bool(const SampledToken&)>& on_token,
           const std::function<void(std::size_t done, std::size_t total)>& on_prompt,
           const CancelToken& cancel) const;

  Precision precision() const { return model_.ops().precision(); }

 private:
  SequenceInput next_input(Sequence& sequence, std::size_t most) const;

  const Model& model_;
  Options options_;
};

}  // namespace perigee
