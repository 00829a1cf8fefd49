// The choice of experts (docs/model.md, "Latent MoE"): the bias selects, the raw scores weigh.
#include <algorithm>
#include <bit>
#include <numeric>

#include "compute/reference/reference_ops.h"
#include "numerics/elementary.h"

namespace perigee {
namespace {

// Orders floats as integers; NaN comes last among candidates, so that a broken token still has a defined
// choice.
std::uint32_t order_key(float value) {
  if (value != value) return 0;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

RoutedToken route_token(const float* logits, std::size_t experts, const RouterParameters& p) {
  std::vector<float> scores(experts);
  std::vector<std::uint32_t> keys(experts);
  for (std::size_t e = 0; e < experts; ++e) {
    scores[e] = exact_sigmoid(logits[e]);
    keys[e] = order_key(scores[e] + p.selection_bias[e]);
  }
  std::vector<std::uint32_t> ranked(experts);
  std::iota(ranked.begin(), ranked.end(), 0u);
  const auto chosen_end = ranked.begin() + static_cast<std::ptrdiff_t>(std::min(p.top_k, experts));
  std::partial_sort(ranked.begin(), chosen_end, ranked.end(), [&](std::uint32_t a, std::uint32_t b) {
    return keys[a] != keys[b] ? keys[a] > keys[b] : a < b;
  });
  float total = 0;  // in rank order
  for (auto expert = ranked.begin(); expert != chosen_end; ++expert) total += scores[*expert];
  std::sort(ranked.begin(), chosen_end);
  RoutedToken routed;
  for (auto expert = ranked.begin(); expert != chosen_end; ++expert) {
    const float weight = p.renormalise ? scores[*expert] / (total + 1e-20f) : scores[*expert];
    routed.experts.push_back(*expert);
    routed.weights.push_back(weight * p.scaling_factor);
  }
  return routed;
}

}  // namespace

void ReferenceOps::route(ConstRows logits, const RouterParameters& parameters,
                         std::span<RoutedToken> routed) const {
  for (std::size_t t = 0; t < logits.rows; ++t) routed[t] = route_token(logits[t], logits.width, parameters);
}

}  // namespace perigee
