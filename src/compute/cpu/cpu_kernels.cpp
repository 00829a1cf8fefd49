#include "compute/cpu/cpu_kernels.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/log.h"
#include "numerics/bf16.h"
#include "numerics/canonical_dot.h"
#include "numerics/e2m1.h"
#include "numerics/e4m3.h"
#include "numerics/e8m0.h"

namespace perigee {
namespace {

// Between the few tokens. Rows of K3's widths are multiples of 4 KiB apart, where they would compete for the
// same few lines of the first-level cache.
constexpr std::size_t kStagger = 256;
static_assert(kStagger % kPackedAlignment == 0);

struct DecodeTables {
  std::array<float, 16> e2m1;
  std::array<float, 256> e4m3;
  std::array<float, 256> e8m0;
};

const DecodeTables& decode_tables() {
  static const DecodeTables kTables = [] {
    DecodeTables tables{};
    for (std::size_t i = 0; i < 256; ++i) {
      const auto code = static_cast<std::uint8_t>(i);
      if (i < 16) tables.e2m1[i] = e2m1_value(code);
      tables.e4m3[i] = e4m3_value(code);
      tables.e8m0[i] = e8m0_value(code);
    }
    return tables;
  }();
  return kTables;
}

#if defined(__x86_64__)
std::vector<const CpuKernels*> find_available() {
  std::vector<const CpuKernels*> found;
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return found;
  found.push_back(&avx2_cpu_kernels());
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512dq")) {
    return found;
  }
  found.push_back(&avx512_cpu_kernels());
  if (!__builtin_cpu_supports("avx512bf16")) return found;
  if (!dot_pairs_is_two_fmas()) {
    log_warning("this processor's vdpbf16ps adds in another order than documented: avx512 is used instead");
    return found;
  }
  // The fastest comes last: vdpbf16ps multiplies more in a cycle than FMAs do on AMD's processors and half as
  // much on Intel's (docs/numerics.md).
  found.insert(__builtin_cpu_is("amd") ? found.end() : found.end() - 1, &avx512_bf16_cpu_kernels());
  return found;
}
#else
std::vector<const CpuKernels*> find_available() {
  return {};
}
#endif

}  // namespace

std::span<const CpuKernels* const> available_cpu_kernels() {
  static const std::vector<const CpuKernels*> kAvailable = find_available();
  return kAvailable;
}

PackedShape packed_shape(const CpuKernels& kernels, Packing packing, std::size_t columns, std::size_t rows,
                         bool few) {
  const bool pairs = packing == Packing::kPairs || packing == Packing::kGradualPairs;
  const std::size_t element = pairs ? sizeof(std::uint16_t) : sizeof(float);
  const std::size_t vector_bytes = kernels.lanes * kDotLaneElements * element;  // of a block
  const std::size_t vectors = kDotLanes / kernels.lanes;                        // of a block
  const std::size_t blocks = (columns + kDotBlock - 1) / kDotBlock;
  PackedShape shape;
  if (few) {
    shape.piece_stride = vector_bytes;
    shape.token_stride = blocks * vectors * vector_bytes + kStagger;
    if (packing == Packing::kWhole) shape.token_stride += blocks * kernels.whole_bytes;
    shape.bytes = rows * shape.token_stride;
  } else {
    shape.piece_blocks = kPackedPiece / vector_bytes;
    shape.token_stride = std::min(blocks, shape.piece_blocks) * vector_bytes;
    shape.piece_stride = rows * shape.token_stride;
    shape.bytes = (blocks + shape.piece_blocks - 1) / shape.piece_blocks * vectors * shape.piece_stride;
  }
  return shape;
}

bool has_fast_linear(const Matrix& matrix) {
  switch (matrix.format) {
    case WeightFormat::kF32:
    case WeightFormat::kBf16:
      return true;
    case WeightFormat::kMxfp4:
      return matrix.columns % 32 == 0;
    case WeightFormat::kNvfp4:
      return matrix.columns % 16 == 0;
    case WeightFormat::kFp8Tile:
      return matrix.columns % kDotLaneElements == 0;
  }
  return false;
}

void decode_row_by_tables(const Matrix& matrix, std::size_t row, float* out) {
  const DecodeTables& tables = decode_tables();
  const std::size_t columns = matrix.columns;
  if (matrix.format == WeightFormat::kF32) {
    std::memcpy(out, matrix.values + row * columns * sizeof(float), columns * sizeof(float));
    for (std::size_t c = 0; c < columns; ++c) out[c] *= matrix.global_scale;
    return;
  }
  const auto byte = [](const std::byte* from, std::size_t index) {
    return std::to_integer<std::uint8_t>(from[index]);
  };
  for (std::size_t c = 0; c < columns; ++c) {
    const std::size_t index = row * columns + c;
    const auto nibble = [&] { return byte(matrix.values, index / 2) >> (index % 2 * 4) & 15; };
    float value = 0;
    switch (matrix.format) {
      case WeightFormat::kMxfp4:
        value = tables.e2m1[nibble()] * tables.e8m0[byte(matrix.scales, index / 32)];
        break;
      case WeightFormat::kNvfp4:
        value = tables.e2m1[nibble()] * tables.e4m3[byte(matrix.scales, index / 16)];
        break;
      case WeightFormat::kFp8Tile:
        value = tables.e4m3[byte(matrix.values, index)] * matrix_scale(matrix, row, c);
        break;
      default:
        value = matrix_element(matrix, row, c);
        break;
    }
    out[c] = value * matrix.global_scale;
  }
}

}  // namespace perigee
