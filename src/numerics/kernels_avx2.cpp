// The AVX2 kernels. Every function carries the target attribute instead of the file being compiled for AVX2,
// so that no inline function of a header can be emitted with AVX2 and then be chosen by the linker for
// everybody.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#include "numerics/kernels.h"

#define PERIGEE_AVX2 __attribute__((target("avx2"), always_inline)) inline
#define PERIGEE_AVX2_KERNEL __attribute__((target("avx2")))

namespace perigee {
namespace {

PERIGEE_AVX2 __m256i load(const std::uint8_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

PERIGEE_AVX2 void store(std::uint8_t* to, __m256i value) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), value);
}

// High nibble of each byte: the larger of the byte's two magnitudes. The low nibble is of no meaning, and
// maxima of such bytes keep the high nibble right. `magnitudes` has sign bits cleared.
PERIGEE_AVX2 __m256i larger_nibble(__m256i magnitudes) {
  return _mm256_max_epu8(magnitudes, _mm256_slli_epi16(magnitudes, 4));
}

PERIGEE_AVX2 __m256i max_of_quadwords(__m256i a, __m256i b) {
  return _mm256_max_epu8(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
}

PERIGEE_AVX2 __m256i max_of_doublewords(__m256i a, __m256i b) {
  const __m256 x = _mm256_castsi256_ps(a);
  const __m256 y = _mm256_castsi256_ps(b);
  return _mm256_max_epu8(_mm256_castps_si256(_mm256_shuffle_ps(x, y, 0x88)),
                         _mm256_castps_si256(_mm256_shuffle_ps(x, y, 0xDD)));
}

PERIGEE_AVX2 __m256i max_of_words(__m256i a, __m256i b) {
  const __m256i even_then_odd = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15,  //
                                                 0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
  return max_of_quadwords(_mm256_shuffle_epi8(a, even_then_odd), _mm256_shuffle_epi8(b, even_then_odd));
}

PERIGEE_AVX2 __m256i max_of_bytes(__m256i a, __m256i b) {
  const __m256i even_then_odd = _mm256_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15,  //
                                                 0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
  return max_of_quadwords(_mm256_shuffle_epi8(a, even_then_odd), _mm256_shuffle_epi8(b, even_then_odd));
}

// Each lane of v[i] holds two items of eight bytes; lane l of the result has their 16 maxima in the order of
// i.
PERIGEE_AVX2 __m256i max_of_items(const __m256i v[8]) {
  const __m256i a = max_of_words(max_of_doublewords(v[0], v[1]), max_of_doublewords(v[2], v[3]));
  const __m256i b = max_of_words(max_of_doublewords(v[4], v[5]), max_of_doublewords(v[6], v[7]));
  const __m256i largest = max_of_bytes(a, b);
  return _mm256_and_si256(_mm256_srli_epi16(largest, 4), _mm256_set1_epi8(7));
}

// Sums of the nibbles of each quadword.
PERIGEE_AVX2 __m256i sum_of_nibbles(__m256i counters) {
  const __m256i low = _mm256_set1_epi8(15);
  const __m256i pairs =
      _mm256_add_epi8(_mm256_and_si256(counters, low), _mm256_and_si256(_mm256_srli_epi16(counters, 4), low));
  return _mm256_sad_epu8(pairs, _mm256_setzero_si256());
}

PERIGEE_AVX2 std::uint64_t sum_of_quadwords(__m256i sums) {
  return static_cast<std::uint64_t>(_mm256_extract_epi64(sums, 0) + _mm256_extract_epi64(sums, 1) +
                                    _mm256_extract_epi64(sums, 2) + _mm256_extract_epi64(sums, 3));
}

// Adds one to the nibble counters of `zero` and `negative` for each zero nibble. Magnitude + 7 carries into
// the sign bit of every nibble that is not zero.
PERIGEE_AVX2 void count_zeros(__m256i value, __m256i magnitudes, __m256i& zero, __m256i& negative) {
  const __m256i sevens = _mm256_set1_epi8(0x77);
  const __m256i signs = _mm256_set1_epi8(static_cast<char>(0x88));
  const __m256i zeros = _mm256_andnot_si256(_mm256_add_epi8(magnitudes, sevens), signs);
  zero = _mm256_add_epi8(zero, _mm256_srli_epi16(zeros, 3));
  negative = _mm256_add_epi8(negative, _mm256_srli_epi16(_mm256_and_si256(zeros, value), 3));
}

// Counts per quadword.
struct ZeroSums {
  __m256i zero;
  __m256i negative;
};

// 32 groups: 512 bytes.
template <bool kCopy>
PERIGEE_AVX2 void codes_of_32_groups(const std::uint8_t* packed, std::uint8_t* copy, std::uint8_t* codes,
                                     ZeroSums& sums) {
  const __m256i sevens = _mm256_set1_epi8(0x77);
  __m256i items[8];
  for (int half = 0; half < 2; ++half) {
    __m256i zero = _mm256_setzero_si256();
    __m256i negative = _mm256_setzero_si256();
    for (int i = 4 * half; i < 4 * half + 4; ++i) {
      const __m256i a = load(packed + 64 * i);
      const __m256i b = load(packed + 64 * i + 32);
      if constexpr (kCopy) {
        store(copy + 64 * i, a);
        store(copy + 64 * i + 32, b);
      }
      const __m256i a_magnitudes = _mm256_and_si256(a, sevens);
      const __m256i b_magnitudes = _mm256_and_si256(b, sevens);
      count_zeros(a, a_magnitudes, zero, negative);
      count_zeros(b, b_magnitudes, zero, negative);
      items[i] = max_of_quadwords(larger_nibble(a_magnitudes), larger_nibble(b_magnitudes));
    }
    // Eight vectors counted: a nibble counter would wrap at sixteen.
    sums.zero = _mm256_add_epi64(sums.zero, sum_of_nibbles(zero));
    sums.negative = _mm256_add_epi64(sums.negative, sum_of_nibbles(negative));
  }
  // Lane l, byte i is group 2 i + l.
  const __m256i largest = max_of_items(items);
  const __m128i even = _mm256_castsi256_si128(largest);
  const __m128i odd = _mm256_extracti128_si256(largest, 1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(codes), _mm_unpacklo_epi8(even, odd));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + 16), _mm_unpackhi_epi8(even, odd));
}

PERIGEE_AVX2_KERNEL void group_codes(const std::uint8_t* packed, std::size_t groups, std::uint8_t* copy,
                                     std::uint8_t* codes, ZeroNibbles& nibbles) {
  ZeroSums sums = {_mm256_setzero_si256(), _mm256_setzero_si256()};
  std::size_t group = 0;
  if (copy == nullptr) {
    for (; group + 32 <= groups; group += 32) {
      codes_of_32_groups<false>(packed + 16 * group, nullptr, codes + group, sums);
    }
  } else {
    for (; group + 32 <= groups; group += 32) {
      codes_of_32_groups<true>(packed + 16 * group, copy + 16 * group, codes + group, sums);
    }
  }
  nibbles.zero += sum_of_quadwords(sums.zero);
  nibbles.negative_zero += sum_of_quadwords(sums.negative);
  scalar_kernels().group_codes(packed + 16 * group, groups - group,
                               copy == nullptr ? nullptr : copy + 16 * group, codes + group, nibbles);
}

PERIGEE_AVX2_KERNEL void block_codes(const std::uint8_t* packed, std::size_t blocks, std::uint8_t* codes) {
  const __m256i sevens = _mm256_set1_epi8(0x77);
  std::size_t block = 0;
  for (; block + 32 <= blocks; block += 32) {
    __m256i items[8];
    for (int i = 0; i < 8; ++i) {
      items[i] = larger_nibble(
          _mm256_and_si256(load(packed + 8 * block + 32 * static_cast<std::size_t>(i)), sevens));
    }
    // Lane l, bytes 2 i and 2 i + 1 are blocks 4 i + 2 l and 4 i + 2 l + 1.
    const __m256i largest = max_of_items(items);
    const __m128i even = _mm256_castsi256_si128(largest);
    const __m128i odd = _mm256_extracti128_si256(largest, 1);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + block), _mm_unpacklo_epi16(even, odd));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + block + 16), _mm_unpackhi_epi16(even, odd));
  }
  scalar_kernels().block_codes(packed + 8 * block, blocks - block, codes + block);
}

// A 256-entry look-up has no vector form here: one load and one 16-bit store per scale.
PERIGEE_AVX2_KERNEL void expand_pairs(const std::uint8_t* scales, std::size_t count,
                                      const std::uint8_t* table, std::uint8_t* out) {
  for (std::size_t j = 0; j < count; ++j) {
    const auto pair = static_cast<std::uint16_t>(table[scales[j]] * 0x0101);
    std::memcpy(out + 2 * j, &pair, sizeof pair);
  }
}

PERIGEE_AVX2 __m128i load_map(const BlockMaps& maps, std::size_t key) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(maps.nibbles[key]));
}

PERIGEE_AVX2_KERNEL std::uint8_t remap_blocks(const std::uint8_t* packed, const std::uint8_t* scales,
                                              const std::uint8_t* codes, std::size_t groups,
                                              const BlockMaps& maps, std::uint8_t* packed_out,
                                              std::uint8_t* blocks_out) {
  const __m128i low_mask = _mm_set1_epi8(15);
  std::uint8_t seen = 0;
  for (std::size_t group = 0; group < groups; ++group) {
    const std::size_t base = std::size_t{8} * scales[group];
    const std::size_t first = base + codes[2 * group];
    const std::size_t second = base + codes[2 * group + 1];
    blocks_out[2 * group] = maps.scale[first];
    blocks_out[2 * group + 1] = maps.scale[second];
    seen |= maps.scale[first] | maps.scale[second];
    const __m128i value = _mm_loadu_si128(reinterpret_cast<const __m128i*>(packed + 16 * group));
    const __m128i low = _mm_and_si128(value, low_mask);
    const __m128i high = _mm_and_si128(_mm_srli_epi16(value, 4), low_mask);
    const __m128i a = _mm_shuffle_epi8(load_map(maps, first), _mm_unpacklo_epi64(low, high));
    const __m128i b = _mm_shuffle_epi8(load_map(maps, second), _mm_unpackhi_epi64(low, high));
    const __m128i result =
        _mm_or_si128(_mm_unpacklo_epi64(a, b), _mm_slli_epi16(_mm_unpackhi_epi64(a, b), 4));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(packed_out + 16 * group), result);
  }
  return seen;
}

// bf16 rounding of finite or infinite floats (never NaN here), as in bf16.h, left in float form.
PERIGEE_AVX2 __m256i round_to_bf16_bits(__m256i bits) {
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
  return _mm256_and_si256(rounded, _mm256_set1_epi32(static_cast<int>(0xFFFF0000)));
}

// E4M3 codes, one in each 32-bit element.
PERIGEE_AVX2 __m256i e4m3_codes(__m256i bits) {
  const __m256i sign = _mm256_and_si256(_mm256_srli_epi32(bits, 24), _mm256_set1_epi32(0x80));
  const __m256 magnitude = _mm256_min_ps(
      _mm256_castsi256_ps(_mm256_and_si256(bits, _mm256_set1_epi32(0x7FFFFFFF))), _mm256_set1_ps(448.0f));
  // Normal results: round the float's mantissa to three bits and move the exponent bias from 127 to 7.
  const __m256i m = _mm256_castps_si256(magnitude);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(m, 20), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(m, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFFF)));
  const __m256i normal = _mm256_sub_epi32(_mm256_srli_epi32(rounded, 20), _mm256_set1_epi32(120 << 3));
  // Subnormal results: at 2^14 a float's last bit is worth 2^-9, so the addition rounds as needed.
  const __m256 anchor = _mm256_set1_ps(0x1p14f);
  const __m256i subnormal =
      _mm256_sub_epi32(_mm256_castps_si256(_mm256_add_ps(magnitude, anchor)), _mm256_castps_si256(anchor));
  const __m256i is_small = _mm256_castps_si256(_mm256_cmp_ps(magnitude, _mm256_set1_ps(0x1p-6f), _CMP_LT_OQ));
  return _mm256_or_si256(sign, _mm256_blendv_epi8(normal, subnormal, is_small));
}

PERIGEE_AVX2_KERNEL void quantise_fp8(const std::uint8_t* bf16, std::size_t count, float scale,
                                      std::uint8_t* fp8) {
  const __m256 divisor = _mm256_set1_ps(scale);
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    __m256i codes[2];
    for (int half = 0; half < 2; ++half) {
      const std::uint8_t* from = bf16 + 2 * i + 16 * half;
      const __m128i eight = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
      const __m256 value = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(eight), 16));
      const __m256 quotient = _mm256_div_ps(value, divisor);
      codes[half] = e4m3_codes(round_to_bf16_bits(_mm256_castps_si256(quotient)));
    }
    // The pack works lane by lane: quadwords come out as 0 2 1 3.
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packus_epi32(codes[0], codes[1]), 0xD8);
    const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(fp8 + i), bytes);
  }
  scalar_kernels().quantise_fp8(bf16 + 2 * i, count - i, scale, fp8 + i);
}

}  // namespace

const Kernels& avx2_kernels() {
  static constexpr Kernels kKernels = {"AVX2",       group_codes,  block_codes,
                                       expand_pairs, remap_blocks, quantise_fp8};
  return kKernels;
}

}  // namespace perigee
#endif
