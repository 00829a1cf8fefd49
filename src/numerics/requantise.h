// MXFP4 -> NVFP4 with rounding, bit for bit as the libraries do it. Because every source value is a nibble
// times a power of two, a block's scale and nibble map depend only on its (K - k, largest nibble), so a
// method is a table of block scale codes and 16-entry nibble maps, made once per scale-sharing set from exact
// scalar arithmetic. The one exception is kFourOverSix, which may depend on all elements of the block: then
// both candidates are kept and compared block by block. Deliberately measures no errors: the verifier does
// that, on its own.
#pragma once

#include <cstddef>
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
  void convert(std::span<const std::byte> packed, std::span<const std::byte> scales,
               std::span<std::byte> packed_out, std::span<std::byte> blocks_out) const;
  // The same with a chosen instruction set.
  void convert(std::span<const std::byte> packed, std::span<const std::byte> scales,
               std::span<std::byte> packed_out, std::span<std::byte> blocks_out,
               const Kernels& kernels) const;
  // One element at a time in the libraries' own order of operations; no tables.
  void convert_reference(std::span<const std::byte> packed, std::span<const std::byte> scales,
                         std::span<std::byte> packed_out, std::span<std::byte> blocks_out) const;

 private:
  struct Tables;
  std::unique_ptr<Tables> tables_;
};

}  // namespace perigee
