// The AVX-512 kernels: own forms for the lossless cast, whose speed is the program's speed; the AVX2 forms
// for the rest.
#if defined(__x86_64__)
// GCC 12 takes the undefined operands inside its own AVX-512 intrinsics for mistakes (its bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include "numerics/kernels.h"

#define PERIGEE_AVX512_TARGET target("avx512f,avx512bw,avx512vl,avx512vbmi")
#define PERIGEE_AVX512 __attribute__((PERIGEE_AVX512_TARGET, always_inline)) inline
#define PERIGEE_AVX512_KERNEL __attribute__((PERIGEE_AVX512_TARGET))

namespace perigee {
namespace {

#include "numerics/kernels_avx512_body.h"

// The other entries are the AVX2 functions themselves; the dispatcher asks for AVX2 before it asks for
// AVX-512.
Kernels with_avx512() {
  Kernels kernels = avx2_kernels();
  kernels.name = "AVX-512";
  kernels.group_codes = group_codes_512;
  kernels.expand_pairs = expand_pairs_512;
  return kernels;
}

}  // namespace

const Kernels& avx512_kernels() {
  static const Kernels kKernels = with_avx512();
  return kKernels;
}

}  // namespace perigee
#endif
