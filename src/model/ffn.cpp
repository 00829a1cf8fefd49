#include <algorithm>
#include <optional>

#include "model/layers.h"

namespace perigee {
namespace {

SituParameters situ_parameters(const K3Config& config) {
  return {.beta = static_cast<float>(config.activation_situ_beta),
          .linear_beta = static_cast<float>(config.activation_situ_linear_beta)};
}

// The tokens of one expert, and the weight of each.
struct ExpertShare {
  std::vector<std::uint32_t> tokens;
  std::vector<float> weights;
};

std::vector<ExpertShare> shares_of_experts(std::span<const RoutedToken> routed, std::size_t experts) {
  std::vector<ExpertShare> shares(experts);
  for (std::size_t t = 0; t < routed.size(); ++t) {
    for (std::size_t i = 0; i < routed[t].experts.size(); ++i) {
      ExpertShare& share = shares[routed[t].experts[i]];
      share.tokens.push_back(static_cast<std::uint32_t>(t));
      share.weights.push_back(routed[t].weights[i]);
    }
  }
  return shares;
}

Tensor gathered(ConstRows x, std::span<const std::uint32_t> tokens) {
  Tensor rows(tokens.size(), x.width);
  for (std::size_t t = 0; t < tokens.size(); ++t) std::copy_n(x[tokens[t]], x.width, rows[t]);
  return rows;
}

// Adds the experts' outputs in index order, so that a token's sum has one order, whatever order they were
// computed in.
class OrderedSum {
 public:
  OrderedSum(const Ops& ops, std::span<const ExpertShare* const> shares, Tensor& sum)
      : ops_(ops), shares_(shares), outputs_(shares.size()), sum_(sum) {}

  void put(std::size_t index, Tensor output) {
    outputs_[index] = std::move(output);
    for (; added_ < outputs_.size() && outputs_[added_].rows() > 0; ++added_) {
      const ExpertShare& share = *shares_[added_];
      ops_.add_weighted(outputs_[added_], share.weights, share.tokens, sum_);
      outputs_[added_] = Tensor();
    }
  }

 private:
  const Ops& ops_;
  std::span<const ExpertShare* const> shares_;
  std::vector<Tensor> outputs_;  // those that wait for one before them
  std::size_t added_ = 0;
  Tensor& sum_;
};

// The next expert that can be had; `missing` hears of those that cannot.
template <typename Missing>
std::optional<ExpertLease::Arrived> next_expert(ExpertLease& lease, const Missing& missing) {
  for (;;) {
    try {
      return lease.next();
    } catch (const ExpertUnavailable& error) {
      missing(error);
    }
  }
}

Tensor situ_glu(const StepContext& step, const Matrix& gate, const Matrix& up, const Matrix& down,
                ConstRows x) {
  Tensor h(x.rows, gate.rows);
  step.ops.situ(linear(step.ops, gate, x), linear(step.ops, up, x), situ_parameters(step.config), h);
  return linear(step.ops, down, h);
}

// The weighted sum of every token's experts, float32.
Tensor routed_sum(const StepContext& step, std::size_t layer, std::span<const RoutedToken> routed,
                  const Tensor& z, const std::function<void()>& meanwhile) {
  const std::vector<ExpertShare> all = shares_of_experts(routed, step.config.num_experts);
  std::vector<std::uint32_t> used;
  std::vector<const ExpertShare*> shares;
  for (std::size_t e = 0; e < all.size(); ++e) {
    if (all[e].tokens.empty()) continue;
    used.push_back(static_cast<std::uint32_t>(e));
    shares.push_back(&all[e]);
  }
  Tensor sum(z.rows(), z.width());
  OrderedSum ordered(step.ops, shares, sum);
  const std::unique_ptr<ExpertLease> lease = step.experts.acquire(layer, used);
  if (meanwhile) meanwhile();
  const auto missing = [&](const ExpertUnavailable& error) {
    const std::vector<std::uint32_t>& tokens = shares[error.index()]->tokens;
    step.fail_rows(tokens, std::current_exception());
    ordered.put(error.index(), Tensor(tokens.size(), z.width()));
  };
  while (const auto arrived = next_expert(*lease, missing)) {
    const ExpertWeights& expert = arrived->weights;
    ordered.put(arrived->index,
                situ_glu(step, expert.w1, expert.w3, expert.w2, gathered(z, shares[arrived->index]->tokens)));
  }
  return sum;
}

}  // namespace

void StepContext::fail_rows(std::span<const std::uint32_t> broken, std::exception_ptr cause) const {
  if (failures.empty()) std::rethrow_exception(cause);
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const auto& [begin, count, position, state] = sequences[i];
    const auto is_of_it = [begin = begin, count = count](std::uint32_t row) {
      return row >= begin && row < begin + count;
    };
    if (!failures[i] && std::ranges::any_of(broken, is_of_it)) failures[i] = cause;
  }
}

std::vector<RoutedToken> choose_experts(const StepContext& step, const MoeWeights& w, ConstRows x) {
  Tensor logits(x.rows, w.gate.rows);
  step.ops.linear_f32(w.gate, x, logits);
  std::vector<RoutedToken> routed(x.rows);
  step.ops.route(logits,
                 {.top_k = step.config.num_experts_per_token,
                  .renormalise = step.config.moe_renormalize,
                  .scaling_factor = static_cast<float>(step.config.routed_scaling_factor),
                  .selection_bias = w.e_score_correction_bias.data()},
                 routed);
  return routed;
}

Tensor situ_mlp(const StepContext& step, const MlpWeights& w, ConstRows x) {
  return situ_glu(step, w.gate_proj, w.up_proj, w.down_proj, x);
}

Tensor latent_moe(const StepContext& step, std::size_t layer, const MoeWeights& w, ConstRows x,
                  const std::function<void()>& meanwhile) {
  const Ops& ops = step.ops;
  const std::vector<RoutedToken> routed = choose_experts(step, w, x);
  if (step.options.observe_routing) step.options.observe_routing(static_cast<int>(layer), routed);
  const Tensor z = linear(ops, w.routed_expert_down_proj, x);

  Tensor sum = routed_sum(step, layer, routed, z, meanwhile);
  ops.round(sum);

  Tensor normed(sum.rows(), sum.width());
  ops.rms_norm(sum, w.routed_expert_norm, static_cast<float>(step.config.rms_norm_eps), normed);
  Tensor out = linear(ops, w.routed_expert_up_proj, normed);
  ops.add(situ_mlp(step, w.shared_experts, x), out);
  return out;
}

}  // namespace perigee
