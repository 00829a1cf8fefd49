// MXFP4 -> NVFP4 with rounding, bit for bit as the libraries do it. Because every source value is a nibble
// times a power of two, a block's result depends only on (K - k, largest nibble of the block), so a method is
// a table of block scale codes and 16-entry nibble maps, made once per scale-sharing set from exact scalar
// arithmetic.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "numerics/expert_scan.h"

namespace perigee {

struct Kernels;  // numerics/kernels.h

enum class RequantMethod {
  kCompressedTensorsMinMax,  // memoryless_minmax: global = bf16(bf16(1/A) * 2688)
  kModelOptMax,              // scale_2 = A / 2688 in float
  kFourOverSix,              // global = 1536 / A, per block the better of amax/6 and amax/4
  kSaturate,  // the lossless cast, but blocks below its window are rounded onto the smallest scale
};

struct RequantStats {
  std::uint64_t blocks16 = 0;
  std::uint64_t changed_blocks16 = 0;  // blocks whose decoded values differ from the source
  // Sums over all elements in exact source units, for relative RMSE, cosine and norm ratio.
  double sum_source_squared = 0, sum_output_squared = 0, sum_product = 0, sum_error_squared = 0;
  double max_abs_error = 0;
  void add(const RequantStats& other);
  double relative_rmse() const;
  double cosine() const;
  double norm_ratio() const;
};

// Everything needed to convert the modules of one scale-sharing set. Immutable after construction, thread
// safe.
class Requantiser {
 public:
  // `set` is the sum of the scans of all modules that share the scale. With no active group the result is all
  // zeros with the method's own canonical scales.
  Requantiser(RequantMethod method, const Mxfp4Scan& set);
  ~Requantiser();
  Requantiser(Requantiser&&) noexcept;

  float scale_2() const;       // multiplier (ModelOpt layout)
  float global_scale() const;  // divisor (compressed-tensors layout)

  // packed/scales as in expert_scan.h; packed_out like packed, blocks_out has 2 * scales.size() E4M3 bytes.
  // stats may be null; with stats the call is slower.
  void convert(std::span<const std::byte> packed, std::span<const std::byte> scales,
               std::span<std::byte> packed_out, std::span<std::byte> blocks_out, RequantStats* stats) const;
  // The same with a chosen instruction set.
  void convert(std::span<const std::byte> packed, std::span<const std::byte> scales,
               std::span<std::byte> packed_out, std::span<std::byte> blocks_out, RequantStats* stats,
               const Kernels& kernels) const;
  // One element at a time in the libraries' own order of operations; no tables.
  void convert_reference(std::span<const std::byte> packed, std::span<const std::byte> scales,
                         std::span<std::byte> packed_out, std::span<std::byte> blocks_out) const;

 private:
  struct Tables;
  std::unique_ptr<Tables> tables_;
};

}  // namespace perigee
