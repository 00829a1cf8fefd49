// Which experts the next layer will want, guessed before its input exists: its router sees a mix of what runs
// through the layers now, without what this layer's experts and the next attention will add. A hint for a
// source that has something to read meanwhile; no result depends on it.
#include <algorithm>

#include "model/layers.h"

namespace perigee {
namespace {

// A step of more tokens needs so many experts that there is nothing to foresee.
constexpr std::size_t kMostTokens = 8;

// Of all tokens, the most strongly chosen first, each once.
std::vector<std::uint32_t> ranked(std::span<const RoutedToken> routed) {
  std::vector<std::pair<float, std::uint32_t>> chosen;
  for (const RoutedToken& token : routed) {
    for (std::size_t i = 0; i < token.experts.size(); ++i)
      chosen.emplace_back(token.weights[i], token.experts[i]);
  }
  std::ranges::sort(chosen, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  std::vector<std::uint32_t> experts;
  for (const auto& [weight, expert] : chosen) {
    if (std::ranges::find(experts, expert) == experts.end()) experts.push_back(expert);
  }
  return experts;
}

}  // namespace

void foresee_experts(const StepContext& step, std::size_t layer, const ResidualStream& stream) {
  const bool wanted = step.experts.wants_prefetch(), observed = !!step.options.observe_foresight;
  if (layer >= step.layers.size() || (!wanted && !observed)) return;
  const LayerWeights& w = step.layers[layer];
  const auto* moe = std::get_if<MoeWeights>(&w.ffn);
  if (moe == nullptr || stream.prefix.rows() > kMostTokens) return;
  const Tensor h = attention_residual(step, stream, w.mlp_res_norm, w.mlp_res_proj);
  const std::vector<RoutedToken> routed =
      choose_experts(step, *moe, rms_norm(step, h, w.post_attention_layernorm));
  const std::vector<std::uint32_t> experts = ranked(routed);
  if (observed) step.options.observe_foresight(static_cast<int>(layer), experts);
  if (wanted) step.experts.prefetch(layer, experts);
}

}  // namespace perigee
