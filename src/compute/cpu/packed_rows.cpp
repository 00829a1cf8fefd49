#include "compute/cpu/packed_rows.h"

#include <algorithm>
#include <vector>

namespace perigee {
namespace {

constexpr std::size_t kTokensAtOnce = 2;  // packing one token takes a microsecond or two: too short to share
// From one token's end to the next one's begin. Rows of K3's widths are multiples of 4 KiB apart, where the
// tokens of a tile would compete for the same few lines of the first-level cache.
constexpr std::size_t kStagger = 256;

// Below these a sum of products could be subnormal, which vdpbf16ps flushes (docs/numerics.md).
float smallest_for(WeightFormat weights) {
  return weights == WeightFormat::kBf16 ? 0x1p-49f : 0x1p-118f;
}

bool has_pairs(WeightFormat weights) {
  return weights == WeightFormat::kBf16 || weights == WeightFormat::kMxfp4 || weights == WeightFormat::kNvfp4;
}

}  // namespace

PackedRows::PackedRows(const CpuKernels& kernels, WeightFormat weights, ConstRows x, bool pairs,
                       ThreadPool& pool) {
  if (pairs && kernels.pack_pairs != nullptr && has_pairs(weights) && pack_pairs(kernels, weights, x, pool)) {
    return;
  }
  reserve(x.rows, x.width, Packing::kFloats);
  pool.parallel_for(x.rows, kTokensAtOnce, [&](std::size_t begin, std::size_t end) {
    for (std::size_t t = begin; t < end; ++t) kernels.pack_floats(x[t], x.width, bytes_.get() + t * stride_);
  });
}

void PackedRows::reserve(std::size_t tokens, std::size_t columns, Packing packing) {
  static_assert(kPackedAlignment <= kActivationAlignment && kStagger % kPackedAlignment == 0);
  packing_ = packing;
  stride_ = packed_bytes(columns, packing) + kStagger;
  const std::size_t size = std::max<std::size_t>(tokens * stride_, 1);
  bytes_ = {static_cast<std::byte*>(allocate_activation(size)), Free{size}};
}

bool PackedRows::pack_pairs(const CpuKernels& kernels, WeightFormat weights, ConstRows x, ThreadPool& pool) {
  reserve(x.rows, x.width, Packing::kPairs);
  std::vector<PairContent> contents(x.rows);
  pool.parallel_for(x.rows, kTokensAtOnce, [&](std::size_t begin, std::size_t end) {
    for (std::size_t t = begin; t < end; ++t)
      contents[t] = kernels.pack_pairs(x[t], x.width, bytes_.get() + t * stride_);
  });
  for (const PairContent& content : contents) {
    if (!content.exact) return false;
    if (content.smallest < smallest_for(weights)) packing_ = Packing::kGradualPairs;
  }
  return true;
}

}  // namespace perigee
