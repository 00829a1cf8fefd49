// The inner loops of the CPU backends, one table per instruction set. Every function gives the bits of
// ReferenceOps (docs/numerics.md, "Forward pass"), for one range of rows, channels or heads; which thread
// does which range is decided by CpuOps. Pointers may have any alignment except where "packed" is said.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "compute/ops.h"

namespace perigee {

// What a token's activations are for the dot products (docs/numerics.md): 32-lane blocks of 256, zero-padded.
enum class Packing {
  kFloats,         // from 2^-90 to 2^90, or zero: no product with a 4-bit or E4M3 weight rounds to zero
  kGradualFloats,  // of any size
  kPairs,          // bf16 pairs, none so small that an intermediate sum could be subnormal
  kGradualPairs,   // bf16 pairs of any size
  kWhole,          // one token's floats, and behind them the same as whole numbers (whole_body.h)
};

inline constexpr std::size_t kPackedAlignment = 64;

inline constexpr std::size_t kPackedPiece = 1024;  // bytes of a piece of many tokens, if there are so many

// Where packed tokens lie. A piece is one vector of lanes of some blocks: [block][step][lane]. A few tokens
// lie one after the other, [token][piece] with pieces of one block, as rows of weights that are streamed past
// meet them; more as [piece][token], as tiles of weights do.
struct PackedShape {
  std::size_t piece_blocks = 1;
  std::size_t piece_stride = 0;  // bytes from a token's piece to its next one
  std::size_t token_stride = 0;  // bytes from token to token
  std::size_t bytes = 0;         // of all tokens
};

// Of a packed token's magnitudes.
struct MagnitudeRange {
  float smallest = INFINITY;  // that is not zero
  float largest = 0;          // NaN if there is one
};

// What a packed token of bf16 pairs contained.
struct PairContent {
  bool exact = true;          // all values were bf16 numbers
  float smallest = INFINITY;  // magnitude of the smallest that is not zero
};

struct LinearTask {
  const Matrix* matrix = nullptr;
  Packing packing = Packing::kFloats;
  const std::byte* x = nullptr;  // packed tokens
  PackedShape shape;             // for so many tokens
  std::size_t tokens = 0;
  float* y = nullptr;  // row r of token t goes to y[t * y_stride + r - first_row]
  std::size_t y_stride = 0;
  std::size_t first_row = 0;
  bool round = false;  // to bf16
};

struct ConvolutionTask {
  ConstRows x;
  const float* weight = nullptr;  // [width, taps]
  std::size_t taps = 0;
  Rows state;
  Rows y;
  bool round = false;
};

struct KdaTask {
  ConstRows q, k, v, g, b;
  const KdaParameters* parameters = nullptr;
  Rows state;
  Rows y;
  bool round = false;
};

// Softmax-weighted sums of the same rows for several queries, of which each sees so many of the first ones.
struct WeightedSumTask {
  const Matrix* rows = nullptr;         // kF32 or kBf16
  const std::size_t* counts = nullptr;  // [queries], at least 1, ascending
  std::size_t width = 0;                // of the sum, from the first column on
  const float* weights = nullptr;       // [queries, weights_stride]
  std::size_t weights_stride = 0;
  float* sums = nullptr;  // [queries, width]
};

struct CpuKernels {
  const char* name = nullptr;
  std::size_t lanes = 0;  // of a vector
  // For up to so many PackedShape is that of a few.
  std::size_t (*few_tokens)(WeightFormat weights) = nullptr;

  // out: the token's first piece, aligned to kPackedAlignment.
  MagnitudeRange (*pack_floats)(const float* x, std::size_t columns, const PackedShape& shape,
                                std::byte* out) = nullptr;
  PairContent (*pack_pairs)(const float* x, std::size_t columns, const PackedShape& shape,
                            std::byte* out) = nullptr;  // or null
  // Where it is not null: what 4-bit weights of whole blocks meet if there is one token. Writes behind the
  // token's packed floats, `whole_bytes` a block.
  void (*pack_whole)(std::size_t columns, std::byte* floats) = nullptr;
  std::size_t whole_bytes = 0;
  void (*linear_rows)(const LinearTask& task, std::size_t begin, std::size_t end) = nullptr;
  // row [columns]: element * scale * global_scale
  void (*decode_row)(const Matrix& matrix, std::size_t row, float* out) = nullptr;

  float (*dot)(const float* a, const float* b, std::size_t length) = nullptr;
  void (*rms_norm)(const float* x, std::size_t width, const float* weight, float eps, bool round,
                   float* y) = nullptr;
  void (*gated_head_norm)(const float* x, const float* gate, std::span<const float> weight, float eps,
                          bool round, float* y) = nullptr;
  void (*add)(const float* x, std::size_t count, bool round, float* y) = nullptr;
  void (*add_scaled)(float scale, const float* x, std::size_t count, float* y) = nullptr;
  void (*round)(std::size_t count, float* x) = nullptr;
  void (*situ)(const float* gate, const float* up, std::size_t count, const SituParameters& parameters,
               bool round, float* y) = nullptr;
  void (*sigmoid_gate)(const float* x, const float* gate, std::size_t count, bool round, float* y) = nullptr;
  // y[i] = sum over j of weights[j] * sources[j][i], ascending j
  void (*mix)(std::span<const float* const> sources, const float* weights, std::size_t begin, std::size_t end,
              bool round, float* y) = nullptr;
  void (*convolve)(const ConvolutionTask& task, std::size_t begin, std::size_t end) = nullptr;
  void (*kda_head)(const KdaTask& task, std::size_t head, float* scratch) = nullptr;  // scratch [3, head_dim]

  // scores[j] = exp(scores[j] * scale - largest of them); returns the largest, *total their sum in order.
  float (*softmax_terms)(float* scores, std::size_t count, float scale, float* total) = nullptr;
  void (*weighted_sum)(const WeightedSumTask& task, std::size_t queries) = nullptr;
  // sum = fma(piece, new_factor, sum * old_factor)
  void (*combine)(const float* piece, std::size_t count, float old_factor, float new_factor,
                  float* sum) = nullptr;
  void (*divide)(float divisor, std::size_t count, float* x) = nullptr;
};

// few: the tokens of a task are a few. rows: those that are packed together.
PackedShape packed_shape(const CpuKernels& kernels, Packing packing, std::size_t columns, std::size_t rows,
                         bool few);

// Whether linear_rows takes the matrix: whole lanes, whole groups of scales. Others are left to ReferenceOps.
bool has_fast_linear(const Matrix& matrix);

// decode_row for every format, a table look-up an element.
void decode_row_by_tables(const Matrix& matrix, std::size_t row, float* out);

// The tables. Using one that the processor lacks ends in SIGILL; available_cpu_kernels asks it first, slowest
// first.
const CpuKernels& avx2_cpu_kernels();
const CpuKernels& avx512_cpu_kernels();       // F, BW, VL, DQ
const CpuKernels& avx512_bf16_cpu_kernels();  // and BF16
bool dot_pairs_is_two_fmas();                 // avx512_bf16_cpu_kernels may be used
std::span<const CpuKernels* const> available_cpu_kernels();

}  // namespace perigee
