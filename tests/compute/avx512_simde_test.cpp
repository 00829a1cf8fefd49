// The AVX-512 kernels of the compute room compiled over SIMDe, so that their logic is tested on machines
// without AVX-512. It is the text that src/compute/cpu/kernels_avx512*.cpp compile; only who executes the
// instructions differs. What SIMDe lacks, or rounds in another way than processors do, has a twin here.
#include <gtest/gtest.h>

#include "compute/cpu/body_headers.h"
#include "compute/cpu/cpu_ops.h"
#include "compute/ops_cases.h"
#include "compute/reference/reference_ops.h"

#if __has_include(<simde/x86/avx512.h>)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wpsabi"
#pragma GCC diagnostic ignored "-Wignored-attributes"
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/fma.h>

namespace perigee {
namespace {

// Lanes as an array and back.
template <typename Lane, typename Vector>
struct Lanes {
  Lane at[sizeof(Vector) / sizeof(Lane)];
  explicit Lanes(Vector x) { std::memcpy(at, &x, sizeof x); }
  Lanes() = default;
  Vector vector() const {
    Vector x;
    std::memcpy(&x, at, sizeof x);
    return x;
  }
};

// SIMDe multiplies and adds in two roundings where the build has no FMA.
__m512 twin_fmadd(__m512 a, __m512 b, __m512 c) {
  const Lanes<float, __m512> x(a), y(b);
  Lanes<float, __m512> z(c);
  for (int l = 0; l < 16; ++l) z.at[l] = std::fma(x.at[l], y.at[l], z.at[l]);
  return z.vector();
}
template <typename Narrow, typename Vector>
__m512i twin_widen(Vector x) {
  const Lanes<Narrow, Vector> narrow(x);
  Lanes<std::uint32_t, __m512i> wide;
  for (int l = 0; l < 16; ++l) wide.at[l] = narrow.at[l];
  return wide.vector();
}

// Reads the words of the mask alone, which is what it is for.
__m512i twin_load_words(unsigned mask, const void* from) {
  Lanes<std::uint32_t, __m512i> words;
  for (int l = 0; l < 16; ++l) {
    words.at[l] = 0;
    if (mask >> l & 1) std::memcpy(&words.at[l], static_cast<const std::byte*>(from) + 4 * l, 4);
  }
  return words.vector();
}

#define __mmask16 simde__mmask16
#undef _mm512_fmadd_ps
#define _mm512_fmadd_ps(a, b, c) twin_fmadd(a, b, c)
#undef _mm512_maskz_loadu_epi32
#define _mm512_maskz_loadu_epi32(mask, from) twin_load_words(mask, from)
#define _mm512_cvtepu8_epi32(x) twin_widen<std::uint8_t>(x)
#define _mm512_cvtepu16_epi32(x) twin_widen<std::uint16_t>(x)

#undef PERIGEE_INLINE
#define PERIGEE_INLINE inline
#undef PERIGEE_PIN
#define PERIGEE_PIN(vector)

// The order matters.
// clang-format off
#include "compute/cpu/vector_avx512_body.h"
#include "compute/cpu/elementary_body.h"
#include "compute/cpu/linear_body.h"
#include "compute/cpu/rows_body.h"
#include "compute/cpu/kda_body.h"
#include "compute/cpu/mla_body.h"

// vdpbf16ps as processors do it: subnormal operands and results count as zero, the odd product comes first.
float flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }

F dot_pairs(F sum, I weights, I activations) {
  const Lanes<std::uint32_t, I> w(weights), x(activations);
  Lanes<float, F> p(sum);
  for (int l = 0; l < 16; ++l) {
    for (const std::uint32_t shift : {0u, 16u}) {
      const float a = std::bit_cast<float>((w.at[l] << shift) & 0xFFFF0000u);
      const float b = std::bit_cast<float>((x.at[l] << shift) & 0xFFFF0000u);
      p.at[l] = flushed(std::fma(flushed(a), flushed(b), flushed(p.at[l])));
    }
  }
  return p.vector();
}

#include "compute/cpu/pairs_body.h"
#include "compute/cpu/pairs_check_body.h"
#include "compute/cpu/table_body.h"
// clang-format on

CpuKernels without_bf16() {
  return kernel_table("avx512 over SIMDe");
}

CpuKernels with_bf16() {
  CpuKernels kernels = kernel_table("avx512-bf16 over SIMDe");
  kernels.pack_pairs = pack_pairs;
  kernels.linear_rows = pair_linear_rows;
  return kernels;
}

class Avx512OverSimde : public ::testing::TestWithParam<bool> {
 protected:
  Avx512OverSimde()
      : kernels_(GetParam() ? with_bf16() : without_bf16()),
        ops_(kernels_, Precision::kBf16, 1),
        reference_(Precision::kBf16) {}
  const CpuKernels kernels_;
  const CpuOps ops_;
  const ReferenceOps reference_;
};

TEST_P(Avx512OverSimde, Linear) {
  test::check_linear(ops_, reference_);
}
TEST_P(Avx512OverSimde, LinearWithManyTokens) {
  test::check_linear_with_many_tokens(ops_, reference_);
}
TEST_P(Avx512OverSimde, LinearWithExtremeValues) {
  test::check_linear_with_extreme_values(ops_, reference_);
}

INSTANTIATE_TEST_SUITE_P(All, Avx512OverSimde, ::testing::Bool());

class Avx512OverSimdeElsewhere : public ::testing::TestWithParam<Precision> {
 protected:
  Avx512OverSimdeElsewhere()
      : kernels_(without_bf16()), ops_(kernels_, GetParam(), 1), reference_(GetParam()) {}
  const CpuKernels kernels_;
  const CpuOps ops_;
  const ReferenceOps reference_;
};

TEST_P(Avx512OverSimdeElsewhere, Norms) {
  test::check_norms(ops_, reference_);
}
TEST_P(Avx512OverSimdeElsewhere, Elementwise) {
  test::check_elementwise(ops_, reference_);
}
TEST_P(Avx512OverSimdeElsewhere, AttentionResidual) {
  test::check_attention_residual(ops_, reference_);
}
TEST_P(Avx512OverSimdeElsewhere, ShortConvolution) {
  test::check_short_convolution(ops_, reference_);
}
TEST_P(Avx512OverSimdeElsewhere, Kda) {
  test::check_kda(ops_, reference_);
}
TEST_P(Avx512OverSimdeElsewhere, Mla) {
  test::check_mla(ops_, reference_);
}

INSTANTIATE_TEST_SUITE_P(All, Avx512OverSimdeElsewhere, ::testing::Values(Precision::kBf16));

TEST(Avx512OverSimdeCheck, AcceptsTheDocumentedOrderOfTheInstruction) {
  EXPECT_TRUE(check_dot_pairs());
}

}  // namespace
}  // namespace perigee

#else

TEST(Avx512OverSimde, Runs) {
  GTEST_SKIP() << "libsimde-dev is not installed";
}

#endif
