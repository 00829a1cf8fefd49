// Kimi Delta Attention, token by token (docs/model.md, "KDA"). Sums over the key dimension run in ascending
// order, so that a vector of value columns can be worked on at once with the same bits.
#include <cmath>

#include "compute/reference/reference_ops.h"
#include "numerics/canonical_dot.h"
#include "numerics/elementary.h"

namespace perigee {
namespace {

constexpr float kNormEps = 1e-6f;  // of the q and k normalisation; not rms_norm_eps

void normalise(const float* x, std::size_t length, float scale, std::vector<float>& y) {
  const float factor = scale / std::sqrt(canonical_dot(x, x, length) + kNormEps);
  for (std::size_t i = 0; i < length; ++i) y[i] = x[i] * factor;
}

struct HeadStep {
  std::vector<float> q, k, decay;  // [head_dim]
  float beta = 0;
};

// One token: decay, delta rule, read-out. s is [key, value].
void head_step(const HeadStep& step, const float* v, std::size_t dim, float* s, float* out) {
  std::vector<float> predicted(dim);
  for (std::size_t i = 0; i < dim; ++i) {
    float* row = s + i * dim;
    for (std::size_t j = 0; j < dim; ++j) {
      row[j] *= step.decay[i];
      predicted[j] = std::fma(step.k[i], row[j], predicted[j]);
    }
  }
  for (std::size_t j = 0; j < dim; ++j) {
    predicted[j] = step.beta * (v[j] - predicted[j]);  // u
    out[j] = 0;
  }
  for (std::size_t i = 0; i < dim; ++i) {
    float* row = s + i * dim;
    for (std::size_t j = 0; j < dim; ++j) {
      row[j] = std::fma(step.k[i], predicted[j], row[j]);
      out[j] = std::fma(step.q[i], row[j], out[j]);
    }
  }
}

}  // namespace

void ReferenceOps::kda(ConstRows q, ConstRows k, ConstRows v, ConstRows g, ConstRows b,
                       const KdaParameters& parameters, Rows state, Rows y) const {
  const std::size_t dim = parameters.head_dim;
  const float query_scale = 1.0f / std::sqrt(static_cast<float>(dim));
  HeadStep step{std::vector<float>(dim), std::vector<float>(dim), std::vector<float>(dim), 0};
  for (std::size_t t = 0; t < q.rows; ++t) {
    for (std::size_t h = 0; h < parameters.heads; ++h) {
      const std::size_t first = h * dim;
      normalise(q[t] + first, dim, query_scale, step.q);
      normalise(k[t] + first, dim, 1.0f, step.k);
      const float rate = exact_exp(parameters.a_log[h]);
      for (std::size_t i = 0; i < dim; ++i) {
        const float gate = rate * (g[t][first + i] + parameters.dt_bias[first + i]);
        step.decay[i] = exact_exp(parameters.gate_lower_bound * exact_sigmoid(gate));
      }
      step.beta = exact_sigmoid(b[t][h]);
      head_step(step, v[t] + first, dim, state[first], y[t] + first);
    }
  }
  round(y);
}

}  // namespace perigee
