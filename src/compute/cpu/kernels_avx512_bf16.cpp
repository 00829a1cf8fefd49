// The kernels for AVX-512 with BF16: vdpbf16ps where weights and activations are bf16 numbers.
#if defined(__x86_64__)
// GCC 12 takes the undefined operands inside its own AVX-512 intrinsics for mistakes (its bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include "compute/cpu/body_headers.h"

namespace perigee {
namespace {

// The order matters.
// clang-format off
#include "compute/cpu/target_avx512_bf16.h"
#include "compute/cpu/vector_avx512_body.h"
#include "compute/cpu/elementary_body.h"
#include "compute/cpu/linear_body.h"
#include "compute/cpu/rows_body.h"
#include "compute/cpu/kda_body.h"
#include "compute/cpu/mla_body.h"

PERIGEE_INLINE F dot_pairs(F sum, I weights, I activations) {
  return _mm512_dpbf16_ps(sum, (__m512bh)weights, (__m512bh)activations);
}

#include "compute/cpu/pairs_body.h"
#include "compute/cpu/pairs_check_body.h"
#include "compute/cpu/target_end.h"
#include "compute/cpu/table_body.h"
// clang-format on

CpuKernels bf16_table() {
  CpuKernels kernels = kernel_table("avx512-bf16");
  kernels.pack_pairs = pack_pairs;
  kernels.linear_rows = pair_linear_rows;
  return kernels;
}

}  // namespace

const CpuKernels& avx512_bf16_cpu_kernels() {
  static const CpuKernels kKernels = bf16_table();
  return kKernels;
}

bool dot_pairs_is_two_fmas() {
  return check_dot_pairs();
}

}  // namespace perigee
#endif
