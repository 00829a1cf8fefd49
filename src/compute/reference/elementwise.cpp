// Linear layers and everything that works element by element or row by row.
#include <cmath>

#include "compute/reference/reference_ops.h"
#include "numerics/canonical_dot.h"
#include "numerics/elementary.h"

namespace perigee {
namespace {

float row_dot(const Matrix& w, std::size_t row, const float* x) {
  const float sum = canonical_dot(
      w.columns, [&](std::size_t i) { return matrix_element(w, row, i); },
      [&](std::size_t i) { return matrix_scale(w, row, i); }, [&](std::size_t i) { return x[i]; });
  return sum * w.global_scale;
}

float mean_square(const float* x, std::size_t width) {
  return canonical_dot(x, x, width) / static_cast<float>(width);
}

float silu(float x) {
  return x * exact_sigmoid(x);
}

}  // namespace

void ReferenceOps::linear_f32(const Matrix& w, ConstRows x, Rows y) const {
  for (std::size_t t = 0; t < x.rows; ++t) {
    for (std::size_t row = 0; row < w.rows; ++row) y[t][row] = row_dot(w, row, x[t]);
  }
}

void ReferenceOps::linear(const Matrix& w, ConstRows x, Rows y) const {
  linear_f32(w, x, y);
  round(y);
}

void ReferenceOps::embed(const Matrix& table, std::span<const std::uint32_t> ids, Rows y) const {
  for (std::size_t t = 0; t < ids.size(); ++t) {
    for (std::size_t i = 0; i < table.columns; ++i) {
      const float value = matrix_element(table, ids[t], i) * matrix_scale(table, ids[t], i);
      y[t][i] = stored(value * table.global_scale);
    }
  }
}

void ReferenceOps::rms_norm(ConstRows x, std::span<const float> weight, float eps, Rows y) const {
  for (std::size_t t = 0; t < x.rows; ++t) {
    const float factor = 1.0f / std::sqrt(mean_square(x[t], x.width) + eps);
    for (std::size_t i = 0; i < x.width; ++i) y[t][i] = stored(stored(x[t][i] * factor) * weight[i]);
  }
}

void ReferenceOps::add(ConstRows x, Rows y) const {
  for (std::size_t i = 0; i < x.size(); ++i) y.data[i] = stored(y.data[i] + x.data[i]);
}

void ReferenceOps::attention_residual(std::span<const ConstRows> sources, std::span<const float> norm,
                                      std::span<const float> proj, float eps, Rows y) const {
  std::vector<float> weights(sources.size());
  for (std::size_t t = 0; t < y.rows; ++t) {
    float largest = -INFINITY;
    for (std::size_t j = 0; j < sources.size(); ++j) {
      const float* v = sources[j][t];
      const float sum = canonical_dot(
          y.width, [&](std::size_t i) { return norm[i] * proj[i]; }, [](std::size_t) { return 1.0f; },
          [&](std::size_t i) { return v[i]; });
      weights[j] = sum * (1.0f / std::sqrt(mean_square(v, y.width) + eps));
      largest = std::fmax(largest, weights[j]);
    }
    float total = 0;
    for (float& weight : weights) {
      weight = exact_exp(weight - largest);
      total += weight;
    }
    for (float& weight : weights) weight /= total;
    for (std::size_t i = 0; i < y.width; ++i) {
      float mix = 0;
      for (std::size_t j = 0; j < sources.size(); ++j) mix = std::fma(weights[j], sources[j][t][i], mix);
      y[t][i] = stored(mix);
    }
  }
}

void ReferenceOps::situ(ConstRows gate, ConstRows up, const SituParameters& parameters, Rows y) const {
  const auto [beta, linear_beta] = parameters;
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const float g = gate.data[i];
    const float gated = beta * exact_tanh(g / beta) * exact_sigmoid(g);
    y.data[i] = stored(gated * (linear_beta * exact_tanh(up.data[i] / linear_beta)));
  }
}

void ReferenceOps::short_convolution(ConstRows x, std::span<const float> weight, std::size_t taps, Rows state,
                                     Rows y) const {
  // Row t of the sequence state rows … x rows, so that the window of row t begins at row t.
  const auto input = [&](std::size_t row, std::size_t channel) {
    return row < state.rows ? state[row][channel] : x[row - state.rows][channel];
  };
  for (std::size_t t = 0; t < x.rows; ++t) {
    for (std::size_t c = 0; c < x.width; ++c) {
      float sum = 0;
      for (std::size_t tap = 0; tap < taps; ++tap)
        sum = std::fma(weight[c * taps + tap], input(t + tap, c), sum);
      y[t][c] = stored(silu(sum));
    }
  }
  for (std::size_t row = 0; row < state.rows; ++row) {  // ascending: a row is read before it is overwritten
    for (std::size_t c = 0; c < x.width; ++c) state[row][c] = input(x.rows + row, c);
  }
}

void ReferenceOps::gated_head_norm(ConstRows x, ConstRows gate, std::span<const float> weight, float eps,
                                   Rows y) const {
  const std::size_t head_dim = weight.size();
  for (std::size_t first = 0; first < x.size(); first += head_dim) {
    const float* values = x.data + first;
    const float factor = 1.0f / std::sqrt(mean_square(values, head_dim) + eps);
    for (std::size_t i = 0; i < head_dim; ++i) {
      y.data[first + i] = stored(values[i] * factor * weight[i] * exact_sigmoid(gate.data[first + i]));
    }
  }
}

void ReferenceOps::sigmoid_gate(ConstRows x, ConstRows gate, Rows y) const {
  for (std::size_t i = 0; i < x.size(); ++i)
    y.data[i] = stored(x.data[i] * stored(exact_sigmoid(gate.data[i])));
}

void ReferenceOps::add_weighted(ConstRows x, std::span<const float> weights,
                                std::span<const std::uint32_t> tokens, Rows y) const {
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    float* sum = y[tokens[t]];
    for (std::size_t i = 0; i < x.width; ++i) sum[i] = std::fma(weights[t], x[t][i], sum[i]);
  }
}

void ReferenceOps::round(Rows x) const {
  if (precision_ == Precision::kF32) return;
  for (std::size_t i = 0; i < x.size(); ++i) x.data[i] = round_to_bf16(x.data[i]);
}

}  // namespace perigee
