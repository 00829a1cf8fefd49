// KDA once more, in double and from the formulas of docs/model.md, with switches for the mistakes that ports
// have made. Without one it is a second opinion on the recurrence. For tests only.
#pragma once

#include <cmath>
#include <vector>

#include "model/forwarding_ops.h"

namespace perigee::test {

enum class KdaMistake {
  kNone,
  kRatePerChannel,  // A_log indexed by channel: reads the padding
  kBiasOutside,     // exp(A) g + dt_bias
  kSoftplusGate,    // Kimi-Linear's unbounded gate
  kDecayAfterUpdate,
  kScaleBeforeNorm,  // of q: the normalisation takes it out again
  kNoNorm,
};

class MistakenKda : public ForwardingOps {
 public:
  MistakenKda(const Ops& inner, KdaMistake mistake) : ForwardingOps(inner), mistake_(mistake) {}

  void kda(ConstRows q, ConstRows k, ConstRows v, ConstRows g, ConstRows b, const KdaParameters& p,
           Rows state, Rows y) const override {
    for (std::size_t h = 0; h < p.heads; ++h) {
      const std::size_t first = h * p.head_dim;
      for (std::size_t t = 0; t < q.rows; ++t) {
        const float beta_input = b[t][h];
        step(q[t] + first, k[t] + first, v[t] + first, decay(g[t] + first, h, p),
             1 / (1 + std::exp(-static_cast<double>(beta_input))), p.head_dim, state[first], y[t] + first);
      }
    }
  }

 private:
  using Values = std::vector<double>;

  Values decay(const float* g, std::size_t head, const KdaParameters& p) const {
    Values alpha(p.head_dim);
    for (std::size_t c = 0; c < p.head_dim; ++c) {
      // The loader cuts the padding from the view, not from memory.
      const double a = static_cast<double>(p.a_log[mistake_ == KdaMistake::kRatePerChannel ? c : head]);
      const double input = static_cast<double>(g[c]);
      const double bias = static_cast<double>(p.dt_bias[head * p.head_dim + c]);
      const double gate =
          mistake_ == KdaMistake::kBiasOutside ? std::exp(a) * input + bias : std::exp(a) * (input + bias);
      alpha[c] = mistake_ == KdaMistake::kSoftplusGate
                     ? std::exp(-std::exp(a) * std::log1p(std::exp(input + bias)))
                     : std::exp(static_cast<double>(p.gate_lower_bound) / (1 + std::exp(-gate)));
    }
    return alpha;
  }

  Values normalised(const float* x, std::size_t dim, bool is_query) const {
    const double scale = is_query ? 1 / std::sqrt(static_cast<double>(dim)) : 1;
    const double before = mistake_ == KdaMistake::kScaleBeforeNorm ? scale : 1;
    Values y(dim);
    double sum = 0;
    for (std::size_t c = 0; c < dim; ++c) {
      y[c] = static_cast<double>(x[c]) * before;
      sum += y[c] * y[c];
    }
    const double factor = mistake_ == KdaMistake::kNoNorm ? scale : scale / before / std::sqrt(sum + 1e-6);
    for (double& value : y) value *= factor;
    return y;
  }

  void step(const float* q_in, const float* k_in, const float* v, const Values& alpha, double beta,
            std::size_t dim, float* state, float* out) const {
    const Values q = normalised(q_in, dim, true), k = normalised(k_in, dim, false);
    const bool late = mistake_ == KdaMistake::kDecayAfterUpdate;
    for (std::size_t j = 0; j < dim; ++j) {
      Values s(dim);
      double predicted = 0, sum = 0;
      for (std::size_t i = 0; i < dim; ++i) {
        s[i] = static_cast<double>(state[i * dim + j]) * (late ? 1 : alpha[i]);
        predicted += k[i] * s[i];
      }
      const double u = beta * (static_cast<double>(v[j]) - predicted);
      for (std::size_t i = 0; i < dim; ++i) {
        s[i] = (s[i] + k[i] * u) * (late ? alpha[i] : 1);
        state[i * dim + j] = static_cast<float>(s[i]);
        sum += q[i] * s[i];
      }
      out[j] = static_cast<float>(sum);
    }
  }

  KdaMistake mistake_;
};

}  // namespace perigee::test
