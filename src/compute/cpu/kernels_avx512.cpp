// The kernels for AVX-512 without BF16: the canonical order by FMAs.
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
#include "compute/cpu/target_avx512.h"
#include "compute/cpu/vector_avx512_body.h"
#include "compute/cpu/elementary_body.h"
#include "compute/cpu/linear_body.h"
#include "compute/cpu/rows_body.h"
#include "compute/cpu/kda_body.h"
#include "compute/cpu/mla_body.h"
#include "compute/cpu/target_end.h"
#include "compute/cpu/table_body.h"
// clang-format on

}  // namespace

const CpuKernels& avx512_cpu_kernels() {
  static const CpuKernels kKernels = kernel_table("avx512");
  return kKernels;
}

}  // namespace perigee
#endif
