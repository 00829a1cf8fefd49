#include "engine/engine.h"

#include <algorithm>

#include "base/error.h"

namespace perigee {

Engine::Engine(const Model& model, Options options) : model_(model), options_(std::move(options)) {
  if (options_.prompt_chunk == 0) fail(ErrorCode::kUsage, "a prompt chunk must have at least one token");
}

SequenceInput Engine::next_input(Sequence& sequence, std::size_t most) const {
  const std::size_t begin = sequence.computed_;
  const std::size_t count = std::min(most, sequence.ids_.size() - begin);
  SequenceInput input{.ids = std::span(sequence.ids_).subspan(begin, count),
                      .state = &sequence.state_,
                      .embeddings = {},
                      .all_logits = false};
  for (const PromptEmbedding& embedding : sequence.request_.embeddings) {
    if (embedding.index >= begin && embedding.index < begin + count)
      input.embeddings.emplace_back(embedding.index - begin, embedding.values.data());
  }
  return input;
}

void Engine::step(std::span<Sequence* const> sequences, std::span<const std::size_t> prompt_tokens) const {
  std::vector<Sequence*> active;
  std::vector<SequenceInput> inputs;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    if (sequences[i]->finished()) continue;
    const std::size_t most = prompt_tokens.empty() ? options_.prompt_chunk : prompt_tokens[i];
    active.push_back(sequences[i]);
    inputs.push_back(next_input(*sequences[i], std::min(most, options_.prompt_chunk)));
  }
  if (active.empty()) return;
  Tensor logits;
  ForwardOptions options;
  options.observe_routing = options_.observe_routing;
  options.observe_foresight = options_.observe_foresight;
  options.on_failure = [&](std::size_t i, std::exception_ptr cause) {
    active[i]->fail_with(std::move(cause));
  };
  try {
    logits = model_.forward(inputs, options);
  } catch (...) {
    for (Sequence* sequence : active) sequence->fail_with(std::current_exception());
    throw;
  }
  for (std::size_t i = 0; i < active.size(); ++i) {
    Sequence& sequence = *active[i];
    if (sequence.failure()) continue;
    sequence.computed_ += inputs[i].ids.size();
    if (sequence.computed_ < sequence.ids_.size()) continue;  // more of its prompt to come
    try {
      if (sequence.request_.on_logits) sequence.request_.on_logits({logits[i], logits.width()});
      const auto generated = std::span(sequence.ids_).subspan(sequence.request_.prompt.size());
      sequence.append(sample({logits[i], logits.width()}, sequence.request_.sampling, generated,
                             generated.size(), sequence.request_.top_logprobs));
    } catch (...) {
      sequence.fail_with(std::current_exception());
    }
  }
}

void Engine::run(Sequence& sequence, const std::function<bool(const SampledToken&)>& on_token,
                 const std::function<void(std::size_t done, std::size_t total)>& on_prompt,
                 const CancelToken& cancel) const {
  Sequence* const only = &sequence;
  while (!sequence.finished()) {
    cancel.check();
    const bool in_prompt = sequence.in_prompt();
    const std::size_t before = sequence.generated().size();
    step({&only, 1});
    if (in_prompt && on_prompt) on_prompt(sequence.computed(), sequence.request().prompt.size());
    if (sequence.generated().size() == before || !on_token) continue;
    if (!on_token(sequence.generated().back()) && !sequence.finished()) sequence.stop();
  }
  if (sequence.failure()) std::rethrow_exception(sequence.failure());
}

}  // namespace perigee
