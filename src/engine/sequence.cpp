#include <algorithm>

#include "base/error.h"
#include "engine/engine.h"

namespace perigee {
namespace {

void check_prompt(const K3Config& config, const std::vector<std::uint32_t>& prompt) {
  if (prompt.empty()) fail(ErrorCode::kUsage, "the prompt has no tokens");
  if (prompt.size() >= config.max_position_embeddings) {
    fail(ErrorCode::kUsage, "the prompt has {} tokens and leaves no room in the model's context of {}",
         prompt.size(), config.max_position_embeddings);
  }
  for (const std::uint32_t id : prompt) {
    if (id >= config.vocab_size) {
      fail(ErrorCode::kUsage, "the prompt has token {}, but the model's vocabulary has {}", id,
           config.vocab_size);
    }
  }
}

void check_embeddings(const K3Config& config, const GenerationRequest& request) {
  std::size_t next = 0;
  for (const PromptEmbedding& embedding : request.embeddings) {
    if (embedding.index < next || embedding.index >= request.prompt.size()) {
      fail(ErrorCode::kUsage, "embedding at index {} is out of order or beyond the prompt of {} tokens",
           embedding.index, request.prompt.size());
    }
    if (embedding.values.size() != config.hidden_size) {
      fail(ErrorCode::kUsage, "embedding at index {} has {} values, but the model's have {}", embedding.index,
           embedding.values.size(), config.hidden_size);
    }
    next = embedding.index + 1;
  }
}

// So that nothing is allocated for a request that cannot be served.
GenerationRequest checked(const K3Config& config, GenerationRequest request) {
  check_request(config, request);
  return request;
}

}  // namespace

void check_request(const K3Config& config, const GenerationRequest& request) {
  check_prompt(config, request.prompt);
  check_embeddings(config, request);
  check_sampling(request.sampling);
}

Sequence::Sequence(const K3Config& config, GenerationRequest request)
    : request_(checked(config, std::move(request))), ids_(request_.prompt), state_(config) {
  most_ids_ = config.max_position_embeddings;
  if (request_.max_tokens > 0) most_ids_ = std::min(most_ids_, ids_.size() + request_.max_tokens);
}

void Sequence::resume(SequenceState state) {
  if (computed_ > 0) fail(ErrorCode::kUsage, "a sequence that has begun cannot resume from another state");
  if (state.position >= request_.prompt.size()) {
    fail(ErrorCode::kUsage,
         "a state after {} tokens leaves nothing to compute of a prompt of {}; a shorter prefix is needed",
         state.position, request_.prompt.size());
  }
  computed_ = state.position;
  state_ = std::move(state);
}

void Sequence::fail_with(std::exception_ptr failure) {
  failure_ = std::move(failure);
  end_ = GenerationEnd::kFailed;
}

void Sequence::append(SampledToken token) {
  const std::uint32_t id = token.chosen.id;
  ids_.push_back(id);
  generated_.push_back(std::move(token));
  const std::vector<std::uint32_t>& end_ids = request_.end_ids;
  if (std::find(end_ids.begin(), end_ids.end(), id) != end_ids.end()) {
    end_ = GenerationEnd::kEndToken;
  } else if (ids_.size() >= most_ids_) {
    end_ = GenerationEnd::kMaxTokens;
  }
}

}  // namespace perigee
