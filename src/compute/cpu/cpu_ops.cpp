// Linear layers and everything that works element by element or row by row: how the work is cut.
#include "compute/cpu/cpu_ops.h"

#include <algorithm>
#include <cmath>

#include "compute/cpu/packed_rows.h"
#include "numerics/elementary.h"

namespace perigee {
namespace {

constexpr std::size_t kLinearRows = 16;  // a cut of a matrix: a multiple of every tile's rows
constexpr std::size_t kElements = 8192;  // of work that is worth another thread
constexpr std::size_t kChannels = 256;   // a cut of a row: whole vectors, whole cache lines

// Rows of `width` elements that are worth another thread together.
std::size_t rows_of_work(std::size_t width) {
  return std::max<std::size_t>(1, kElements / std::max<std::size_t>(width, 1));
}

}  // namespace

void CpuOps::fast_linear(const Matrix& w, ConstRows x, Rows y, bool round) const {
  // With few tokens the way of bf16 weights from memory decides, and made floats they take fewer instructions
  // than as guarded pairs (docs/performance.md).
  const bool pairs = rounds() && (w.format != WeightFormat::kBf16 || x.rows > kernels_.few_tokens(w.format));
  const PackedRows packed(kernels_, w.format, x, x.rows, pairs, pool_);
  const LinearTask task{.matrix = &w,
                        .packing = packed.packing(),
                        .x = packed.row(0),
                        .shape = packed.shape(),
                        .tokens = x.rows,
                        .y = y.data,
                        .y_stride = y.width,
                        .first_row = 0,
                        .round = round};
  pool_.parallel_for(w.rows, kLinearRows,
                     [&](std::size_t begin, std::size_t end) { kernels_.linear_rows(task, begin, end); });
}

void CpuOps::linear(const Matrix& w, ConstRows x, Rows y) const {
  if (!has_fast_linear(w)) return ReferenceOps::linear(w, x, y);
  fast_linear(w, x, y, rounds());
}

void CpuOps::linear_f32(const Matrix& w, ConstRows x, Rows y) const {
  if (!has_fast_linear(w)) return ReferenceOps::linear_f32(w, x, y);
  fast_linear(w, x, y, false);
}

void CpuOps::embed(const Matrix& table, std::span<const std::uint32_t> ids, Rows y) const {
  pool_.parallel_for(ids.size(), rows_of_work(y.width), [&](std::size_t begin, std::size_t end) {
    ReferenceOps::embed(table, ids.subspan(begin, end - begin), {y[begin], end - begin, y.width});
  });
}

void CpuOps::rms_norm(ConstRows x, std::span<const float> weight, float eps, Rows y) const {
  pool_.parallel_for(x.rows, rows_of_work(x.width), [&](std::size_t begin, std::size_t end) {
    for (std::size_t t = begin; t < end; ++t)
      kernels_.rms_norm(x[t], x.width, weight.data(), eps, rounds(), y[t]);
  });
}

void CpuOps::add(ConstRows x, Rows y) const {
  pool_.parallel_for(x.size(), kElements, [&](std::size_t begin, std::size_t end) {
    kernels_.add(x.data + begin, end - begin, rounds(), y.data + begin);
  });
}

void CpuOps::attention_residual(std::span<const ConstRows> sources, std::span<const float> norm,
                                std::span<const float> proj, float eps, Rows y) const {
  const std::size_t count = sources.size(), width = y.width;
  std::vector<float> product(width);
  for (std::size_t i = 0; i < width; ++i) product[i] = norm[i] * proj[i];
  std::vector<float> weights(y.rows * count);  // scores first
  pool_.parallel_for(weights.size(), rows_of_work(width), [&](std::size_t begin, std::size_t end) {
    for (std::size_t item = begin; item < end; ++item) {
      const float* v = sources[item % count][item / count];
      const float mean = kernels_.dot(v, v, width) / static_cast<float>(width);
      weights[item] = kernels_.dot(product.data(), v, width) * (1.0f / std::sqrt(mean + eps));
    }
  });
  std::vector<const float*> values(y.rows * count);
  for (std::size_t t = 0; t < y.rows; ++t) {
    const std::span<float> mine(weights.data() + t * count, count);
    float largest = -INFINITY;
    for (std::size_t j = 0; j < count; ++j) {
      largest = std::fmax(largest, mine[j]);
      values[t * count + j] = sources[j][t];
    }
    float total = 0;
    for (float& weight : mine) {
      weight = exact_exp(weight - largest);
      total += weight;
    }
    for (float& weight : mine) weight /= total;
  }
  const std::size_t cuts = (width + kChannels - 1) / kChannels;
  pool_.parallel_for(y.rows * cuts, rows_of_work(kChannels * count), [&](std::size_t begin, std::size_t end) {
    for (std::size_t item = begin; item < end; ++item) {
      const std::size_t t = item / cuts, first = item % cuts * kChannels;
      kernels_.mix({values.data() + t * count, count}, weights.data() + t * count, first,
                   std::min(width, first + kChannels), rounds(), y[t]);
    }
  });
}

void CpuOps::situ(ConstRows gate, ConstRows up, const SituParameters& parameters, Rows y) const {
  pool_.parallel_for(gate.size(), kElements / 4, [&](std::size_t begin, std::size_t end) {
    kernels_.situ(gate.data + begin, up.data + begin, end - begin, parameters, rounds(), y.data + begin);
  });
}

void CpuOps::short_convolution(ConstRows x, std::span<const float> weight, std::size_t taps, Rows state,
                               Rows y) const {
  const ConvolutionTask task{x, weight.data(), taps, state, y, rounds()};
  const std::size_t work = kElements / 4 / std::max<std::size_t>(x.rows, 1);
  const std::size_t grain = std::max<std::size_t>(work / kChannels, 1) * kChannels;
  pool_.parallel_for(x.width, grain,
                     [&](std::size_t begin, std::size_t end) { kernels_.convolve(task, begin, end); });
}

void CpuOps::gated_head_norm(ConstRows x, ConstRows gate, std::span<const float> weight, float eps,
                             Rows y) const {
  const std::size_t head_dim = weight.size();
  const std::size_t heads = (x.size() + head_dim - 1) / head_dim;
  pool_.parallel_for(heads, rows_of_work(4 * head_dim), [&](std::size_t begin, std::size_t end) {
    for (std::size_t head = begin; head < end; ++head) {
      const std::size_t first = head * head_dim;
      kernels_.gated_head_norm(x.data + first, gate.data + first, weight, eps, rounds(), y.data + first);
    }
  });
}

void CpuOps::sigmoid_gate(ConstRows x, ConstRows gate, Rows y) const {
  pool_.parallel_for(x.size(), kElements / 2, [&](std::size_t begin, std::size_t end) {
    kernels_.sigmoid_gate(x.data + begin, gate.data + begin, end - begin, rounds(), y.data + begin);
  });
}

void CpuOps::route(ConstRows logits, const RouterParameters& parameters,
                   std::span<RoutedToken> routed) const {
  pool_.parallel_for(logits.rows, 2, [&](std::size_t begin, std::size_t end) {
    ReferenceOps::route({logits[begin], end - begin, logits.width}, parameters,
                        routed.subspan(begin, end - begin));
  });
}

void CpuOps::add_weighted(ConstRows x, std::span<const float> weights, std::span<const std::uint32_t> tokens,
                          Rows y) const {
  const std::size_t work = kElements / std::max<std::size_t>(tokens.size(), 1);
  const std::size_t grain = std::max<std::size_t>(work / kChannels, 1) * kChannels;
  pool_.parallel_for(x.width, grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t t = 0; t < tokens.size(); ++t)
      kernels_.add_scaled(weights[t], x[t] + begin, end - begin, y[tokens[t]] + begin);
  });
}

void CpuOps::round(Rows x) const {
  if (!rounds()) return;
  pool_.parallel_for(x.size(), kElements, [&](std::size_t begin, std::size_t end) {
    kernels_.round(end - begin, x.data + begin);
  });
}

}  // namespace perigee
