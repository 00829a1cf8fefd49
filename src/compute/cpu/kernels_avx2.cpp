// The kernels for AVX2 and FMA.
#if defined(__x86_64__)
#include <immintrin.h>

#include "compute/cpu/body_headers.h"

namespace perigee {
namespace {

// The order matters.
// clang-format off
#include "compute/cpu/target_avx2.h"
#include "compute/cpu/vector_avx2_body.h"
#include "compute/cpu/elementary_body.h"
#include "compute/cpu/linear_body.h"
#include "compute/cpu/whole_body.h"
#include "compute/cpu/rows_body.h"
#include "compute/cpu/kda_body.h"
#include "compute/cpu/mla_body.h"
#include "compute/cpu/target_end.h"
#include "compute/cpu/table_body.h"
// clang-format on

CpuKernels avx2_table() {
  CpuKernels kernels = kernel_table("avx2");
  kernels.pack_whole = pack_whole;
  kernels.whole_bytes = sizeof(WholeBlock);
  kernels.linear_rows = whole_or_float_rows;
  return kernels;
}

}  // namespace

const CpuKernels& avx2_cpu_kernels() {
  static const CpuKernels kKernels = avx2_table();
  return kKernels;
}

}  // namespace perigee
#endif
