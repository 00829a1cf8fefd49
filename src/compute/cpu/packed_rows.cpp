#include "compute/cpu/packed_rows.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "numerics/canonical_dot.h"

namespace perigee {
namespace {

constexpr std::size_t kTokensAtOnce = 2;  // packing one token takes a microsecond or two: too short to share

// Below these a sum of products could be subnormal, which vdpbf16ps flushes (docs/numerics.md).
float smallest_of_pairs(WeightFormat weights) {
  return weights == WeightFormat::kBf16 ? 0x1p-49f : 0x1p-118f;
}

// Packing::kFloats: not even with a scale of 2^-30 is the last bit of a product with a 4-bit weight, which is
// a multiple of 2^-1, below 2^-149; and with one of 2^30 no sum of eight overflows.
constexpr float kSmallestFloat = 0x1p-90f;
constexpr float kLargestFloat = 0x1p90f;

bool has_nibbles(WeightFormat weights) {
  return weights == WeightFormat::kMxfp4 || weights == WeightFormat::kNvfp4;
}
bool has_pairs(WeightFormat weights) {
  return weights == WeightFormat::kBf16 || has_nibbles(weights);
}

}  // namespace

PackedRows::PackedRows(const CpuKernels& kernels, WeightFormat weights, ConstRows x, std::size_t tokens,
                       bool pairs, ThreadPool& pool)
    : kernels_(kernels), few_(tokens <= kernels.few_tokens(weights)) {
  if (pairs && kernels.pack_pairs != nullptr && has_pairs(weights) && pack_pairs(weights, x, pool)) return;
  const bool whole = pairs && kernels.pack_whole != nullptr && has_nibbles(weights);
  if (whole && x.rows == 1 && x.width % kDotBlock == 0) {
    pack_whole(x);
    return;
  }
  reserve(x, Packing::kFloats);
  std::atomic<bool> gradual = false;
  pool.parallel_for(x.rows, kTokensAtOnce, [&](std::size_t begin, std::size_t end) {
    for (std::size_t t = begin; t < end; ++t) {
      const MagnitudeRange range = kernels_.pack_floats(x[t], x.width, shape_, begin_of(t));
      if (!(range.smallest >= kSmallestFloat && range.largest <= kLargestFloat)) gradual = true;
    }
  });
  if (gradual) packing_ = Packing::kGradualFloats;
}

void PackedRows::reserve(ConstRows x, Packing packing) {
  static_assert(kPackedAlignment <= kActivationAlignment);
  packing_ = packing;
  shape_ = packed_shape(kernels_, packing, x.width, x.rows, few_);
  const std::size_t size = std::max<std::size_t>(shape_.bytes, 1);
  bytes_ = {static_cast<std::byte*>(allocate_activation(size)), Free{size}};
}

void PackedRows::pack_whole(ConstRows x) {
  reserve(x, Packing::kWhole);
  kernels_.pack_floats(x[0], x.width, shape_, begin_of(0));
  kernels_.pack_whole(x.width, begin_of(0));
}

bool PackedRows::pack_pairs(WeightFormat weights, ConstRows x, ThreadPool& pool) {
  reserve(x, Packing::kPairs);
  std::vector<PairContent> contents(x.rows);
  pool.parallel_for(x.rows, kTokensAtOnce, [&](std::size_t begin, std::size_t end) {
    for (std::size_t t = begin; t < end; ++t)
      contents[t] = kernels_.pack_pairs(x[t], x.width, shape_, begin_of(t));
  });
  for (const PairContent& content : contents) {
    if (!content.exact) return false;
    if (content.smallest < smallest_of_pairs(weights)) packing_ = Packing::kGradualPairs;
  }
  return true;
}

}  // namespace perigee
