// One class for each mistake that a single op can make. For tests only.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <optional>

#include "model/forwarding_ops.h"
#include "model/second_pass.h"
#include "numerics/elementary.h"

namespace perigee::test {

inline std::vector<float> scaled(ConstRows x, float factor) {
  std::vector<float> values(x.data, x.data + x.size());
  for (float& value : values) value *= factor;
  return values;
}

// Norms of this width, or of any if it is 0, use eps `to` instead of `from`.
class OtherEps : public ForwardingOps {
 public:
  OtherEps(const Ops& inner, std::size_t width, float from, float to)
      : ForwardingOps(inner), width_(width), from_(from), to_(to) {}
  void rms_norm(ConstRows x, std::span<const float> weight, float eps, Rows y) const override {
    const bool meant = eps == from_ && (width_ == 0 || width_ == x.width);
    inner_.rms_norm(x, weight, meant ? to_ : eps, y);
  }

 private:
  std::size_t width_;
  float from_, to_;
};

// Rotates the rope dimensions of queries and keys by position, pairs side by side, base 10000.
class Rotary : public ForwardingOps {
 public:
  using ForwardingOps::ForwardingOps;
  void mla(ConstRows q, const Matrix& kv_b, const MlaCacheView& cache, std::size_t first_position,
           const MlaParameters& p, Rows y) const override {
    const std::size_t width = p.latent_dim + p.rope_dim, key = p.nope_dim + p.rope_dim;
    std::vector<std::vector<float>> pieces;
    std::vector<const std::byte*> views;
    for (const std::byte* values : cache.pieces) {
      const std::size_t first = pieces.size() * kMlaPiece;
      if (first >= cache.positions) break;
      const std::size_t rows = std::min(kMlaPiece, cache.positions - first);
      const Matrix kept{.format = cache.format, .rows = rows, .columns = width, .values = values};
      std::vector<float>& piece = pieces.emplace_back(rows * width);
      for (std::size_t i = 0; i < piece.size(); ++i) piece[i] = matrix_element(kept, i / width, i % width);
      for (std::size_t j = 0; j < rows; ++j)
        rotate(piece.data() + j * width + p.latent_dim, p.rope_dim, first + j);
      views.push_back(reinterpret_cast<const std::byte*>(piece.data()));
    }
    std::vector<float> rotated(q.data, q.data + q.size());
    for (std::size_t t = 0; t < q.rows; ++t) {
      for (std::size_t h = 0; h < p.heads; ++h)
        rotate(rotated.data() + t * q.width + h * key + p.nope_dim, p.rope_dim, first_position + t);
    }
    inner_.mla({rotated.data(), q.rows, q.width}, kv_b, {views, cache.positions, WeightFormat::kF32},
               first_position, p, y);
  }

 private:
  static void rotate(float* x, std::size_t dim, std::size_t position) {
    for (std::size_t i = 0; i < dim; i += 2) {
      const double angle = static_cast<double>(position) *
                           std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(dim));
      const double a = static_cast<double>(x[i]), b = static_cast<double>(x[i + 1]);
      x[i] = static_cast<float>(a * std::cos(angle) - b * std::sin(angle));
      x[i + 1] = static_cast<float>(a * std::sin(angle) + b * std::cos(angle));
    }
  }
};

class MlaScaleFromNopeOnly : public ForwardingOps {
 public:
  using ForwardingOps::ForwardingOps;
  void mla(ConstRows q, const Matrix& kv_b, const MlaCacheView& cache, std::size_t first_position,
           const MlaParameters& p, Rows y) const override {
    const auto nope = static_cast<float>(p.nope_dim), all = static_cast<float>(p.nope_dim + p.rope_dim);
    const std::vector<float> larger = scaled(q, std::sqrt(all / nope));
    inner_.mla({larger.data(), q.rows, q.width}, kv_b, cache, first_position, p, y);
  }
};

class NoMlaGate : public ForwardingOps {
 public:
  using ForwardingOps::ForwardingOps;
  void sigmoid_gate(ConstRows x, ConstRows, Rows y) const override { std::copy_n(x.data, x.size(), y.data); }
};

// The gate projections read the residual instead of the normed input.
class GateReadsResidual : public ForwardingOps {
 public:
  GateReadsResidual(const Ops& inner, const TextWeights& text) : ForwardingOps(inner), text_(text) {}
  void rms_norm(ConstRows x, std::span<const float> weight, float eps, Rows y) const override {
    for (const LayerWeights& layer : text_.layers) {
      if (weight.data() == layer.input_layernorm.data()) residual_.assign(x.data, x.data + x.size());
    }
    inner_.rms_norm(x, weight, eps, y);
  }
  void linear(const Matrix& w, ConstRows x, Rows y) const override {
    const bool gate = std::any_of(text_.layers.begin(), text_.layers.end(), [&](const LayerWeights& layer) {
      return std::visit([&](const auto& a) { return a.g_proj.values == w.values; }, layer.attention);
    });
    inner_.linear(w, gate ? ConstRows(residual_.data(), x.rows, x.width) : x, y);
  }

 private:
  const TextWeights& text_;
  mutable std::vector<float> residual_;
};

class MixOfNormedSources : public ForwardingOps {
 public:
  using ForwardingOps::ForwardingOps;
  void attention_residual(std::span<const ConstRows> sources, std::span<const float> norm,
                          std::span<const float> proj, float eps, Rows y) const override {
    std::vector<std::vector<float>> normed(sources.size());
    std::vector<ConstRows> views;
    const std::vector<float> ones(y.width, 1.0f);
    for (std::size_t j = 0; j < sources.size(); ++j) {
      normed[j].resize(y.size());
      inner_.rms_norm(sources[j], ones, eps, {normed[j].data(), y.rows, y.width});
      views.emplace_back(normed[j].data(), y.rows, y.width);
    }
    inner_.attention_residual(views, norm, proj, eps, y);  // normed twice is normed once
  }
};

class ScoresWithoutNormWeight : public ForwardingOps {
 public:
  using ForwardingOps::ForwardingOps;
  void attention_residual(std::span<const ConstRows> sources, std::span<const float>,
                          std::span<const float> proj, float eps, Rows y) const override {
    inner_.attention_residual(sources, std::vector<float>(y.width, 1.0f), proj, eps, y);
  }
};

class SituWithoutTanhOnUp : public ForwardingOps {
 public:
  using ForwardingOps::ForwardingOps;
  void situ(ConstRows gate, ConstRows up, const SituParameters& p, Rows y) const override {
    for (std::size_t i = 0; i < gate.size(); ++i) {
      const float g = gate.data[i];
      y.data[i] = p.beta * exact_tanh(g / p.beta) * exact_sigmoid(g) * up.data[i];
    }
  }
};

class SiluInsteadOfSitu : public ForwardingOps {
 public:
  using ForwardingOps::ForwardingOps;
  void situ(ConstRows gate, ConstRows up, const SituParameters& p, Rows y) const override {
    for (std::size_t i = 0; i < gate.size(); ++i) {
      const float g = gate.data[i];
      y.data[i] = g * exact_sigmoid(g) * p.linear_beta * exact_tanh(up.data[i] / p.linear_beta);
    }
  }
};

class TapsReversed : public ForwardingOps {
 public:
  using ForwardingOps::ForwardingOps;
  void short_convolution(ConstRows x, std::span<const float> weight, std::size_t taps, Rows state,
                         Rows y) const override {
    std::vector<float> reversed(weight.begin(), weight.end());
    for (std::size_t c = 0; c < reversed.size(); c += taps)
      std::reverse(reversed.begin() + static_cast<std::ptrdiff_t>(c),
                   reversed.begin() + static_cast<std::ptrdiff_t>(c + taps));
    inner_.short_convolution(x, reversed, taps, state, y);
  }
};

class ConvolutionWithoutSilu : public ForwardingOps {
 public:
  using ForwardingOps::ForwardingOps;
  void short_convolution(ConstRows x, std::span<const float> weight, std::size_t taps, Rows state,
                         Rows y) const override {
    for (std::size_t t = 0; t < x.rows; ++t) {
      for (std::size_t c = 0; c < x.width; ++c) {
        y[t][c] = 0;
        for (std::size_t tap = 0; tap < taps; ++tap) {
          const std::size_t row = t + tap;
          y[t][c] += weight[c * taps + tap] * (row < state.rows ? state[row][c] : x[row - state.rows][c]);
        }
      }
    }  // the state is not moved on: whole prompts only
  }
};

class SiluOutputGate : public ForwardingOps {
 public:
  using ForwardingOps::ForwardingOps;
  void gated_head_norm(ConstRows x, ConstRows gate, std::span<const float> weight, float eps,
                       Rows y) const override {
    inner_.gated_head_norm(x, gate, weight, eps, y);
    for (std::size_t i = 0; i < x.size(); ++i) y.data[i] *= gate.data[i];
  }
};

class GateBeforeNorm : public ForwardingOps {
 public:
  using ForwardingOps::ForwardingOps;
  void gated_head_norm(ConstRows x, ConstRows gate, std::span<const float> weight, float eps,
                       Rows y) const override {
    std::vector<float> gated(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) gated[i] = x.data[i] * exact_sigmoid(gate.data[i]);
    const std::size_t heads = x.size() / weight.size();
    inner_.rms_norm({gated.data(), heads, weight.size()}, weight, eps, {y.data, heads, weight.size()});
  }
};

class BetaTwoPercentOff : public ForwardingOps {
 public:
  BetaTwoPercentOff(const Ops& inner, std::size_t heads) : ForwardingOps(inner), heads_(heads) {}
  void linear(const Matrix& w, ConstRows x, Rows y) const override {
    inner_.linear(w, x, y);
    if (w.rows != heads_) return;  // only b_proj has as many rows as there are heads
    for (std::size_t i = 0; i < y.size(); ++i) y.data[i] *= 1.02f;
  }

 private:
  std::size_t heads_;
};

enum class RouterMistake { kBiasedWeights, kNoBias, kSoftmax, kNoRenormalisation };

class MistakenRouter : public ForwardingOps {
 public:
  MistakenRouter(const Ops& inner, RouterMistake mistake) : ForwardingOps(inner), mistake_(mistake) {}
  void route(ConstRows logits, const RouterParameters& p, std::span<RoutedToken> routed) const override {
    RouterParameters other = p;
    const std::vector<float> zeros(logits.width);
    if (mistake_ == RouterMistake::kNoBias) other.selection_bias = zeros.data();
    if (mistake_ == RouterMistake::kNoRenormalisation) other.renormalise = false;
    inner_.route(logits, other, routed);
    if (mistake_ != RouterMistake::kBiasedWeights && mistake_ != RouterMistake::kSoftmax) return;
    for (std::size_t t = 0; t < routed.size(); ++t) {
      float total = 0;
      for (std::size_t i = 0; i < routed[t].experts.size(); ++i) {
        const std::uint32_t e = routed[t].experts[i];
        const float logit = logits[t][e];
        routed[t].weights[i] = mistake_ == RouterMistake::kSoftmax
                                   ? std::exp(logit)
                                   : exact_sigmoid(logit) + p.selection_bias[e];
        total += routed[t].weights[i];
      }
      for (float& weight : routed[t].weights) weight /= total;
    }
  }

 private:
  RouterMistake mistake_;
};

// The norm of the routed experts' sum left out, or moved in front of the experts.
class MistakenRoutedNorm : public ForwardingOps {
 public:
  MistakenRoutedNorm(const Ops& inner, const LoadedModel& model, bool before)
      : ForwardingOps(inner), before_(before), eps_(static_cast<float>(model.config().rms_norm_eps)) {
    for (const LayerWeights& layer : model.text().layers) {
      if (const auto* moe = std::get_if<MoeWeights>(&layer.ffn)) moes_.push_back(moe);
    }
  }
  void rms_norm(ConstRows x, std::span<const float> weight, float eps, Rows y) const override {
    for (const MoeWeights* moe : moes_) {
      if (moe->routed_expert_norm.data() == weight.data())
        return static_cast<void>(std::copy_n(x.data, x.size(), y.data));
    }
    inner_.rms_norm(x, weight, eps, y);
  }
  void linear(const Matrix& w, ConstRows x, Rows y) const override {
    inner_.linear(w, x, y);
    for (const MoeWeights* moe : moes_) {
      if (!before_ || moe->routed_expert_down_proj.values != w.values) continue;
      const std::vector<float> z(y.data, y.data + y.size());
      inner_.rms_norm({z.data(), y.rows, y.width}, moe->routed_expert_norm, eps_, y);
    }
  }

 private:
  bool before_;
  float eps_;
  std::vector<const MoeWeights*> moes_;
};

// Experts that are changed on their way.
class ChangedExperts : public ExpertSource {
 public:
  explicit ChangedExperts(ExpertSource& inner) : inner_(inner) {}
  std::unique_ptr<ExpertLease> acquire(std::uint64_t layer, std::span<const std::uint32_t> experts) override {
    return std::make_unique<Lease>(*this, inner_.acquire(layer, experts));
  }

 private:
  struct Lease : ExpertLease {
    Lease(ChangedExperts& owner, std::unique_ptr<ExpertLease> inner)
        : owner_(owner), inner_(std::move(inner)) {}
    std::optional<Arrived> next() override {
      std::optional<Arrived> arrived = inner_->next();
      if (arrived) owner_.change(arrived->weights);
      return arrived;
    }
    ChangedExperts& owner_;
    std::unique_ptr<ExpertLease> inner_;
  };

  virtual void change(ExpertWeights& weights) = 0;

  ExpertSource& inner_;
};

// Experts with gate and up exchanged.
class SwappedExperts : public ChangedExperts {
  using ChangedExperts::ChangedExperts;
  void change(ExpertWeights& weights) override { std::swap(weights.w1, weights.w3); }
};

// Experts whose even columns are read from the high nibbles.
class SwappedNibbles : public ChangedExperts {
  using ChangedExperts::ChangedExperts;
  void change(ExpertWeights& weights) override {
    for (Matrix* matrix : {&weights.w1, &weights.w2, &weights.w3}) swap(*matrix);
  }

  void swap(Matrix& matrix) {
    std::vector<std::byte>& swapped = swapped_[matrix.values];
    if (swapped.empty()) {
      swapped.assign(matrix.values, matrix.values + matrix.rows * matrix.columns / 2);
      for (std::byte& pair : swapped) pair = (pair << 4) | (pair >> 4);
    }
    matrix.values = swapped.data();
  }

  std::map<const std::byte*, std::vector<std::byte>> swapped_;
};

}  // namespace perigee::test
