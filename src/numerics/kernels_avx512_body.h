// The two kernels where AVX-512 pays, as text that is compiled twice: for the processor (kernels_avx512.cpp)
// and for a test over SIMDe, which runs the same instructions on any machine. The includer provides the
// intrinsics, a namespace around this file, and PERIGEE_AVX512 / PERIGEE_AVX512_KERNEL; that is why there is
// no #pragma once and no include. The steps are those of kernels_avx2.cpp, explained there.

PERIGEE_AVX512 __m512i load_512(const std::uint8_t* from) {
  return _mm512_loadu_si512(from);
}

PERIGEE_AVX512 __m512i larger_nibble_512(__m512i magnitudes) {
  return _mm512_max_epu8(magnitudes, _mm512_slli_epi16(magnitudes, 4));
}

PERIGEE_AVX512 __m512i max_of_quadwords_512(__m512i a, __m512i b) {
  return _mm512_max_epu8(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

PERIGEE_AVX512 __m512i shuffle_lanes_512(__m512i value, __m128i order) {
  return _mm512_shuffle_epi8(value, _mm512_broadcast_i32x4(order));
}

PERIGEE_AVX512 __m512i max_of_doublewords_512(__m512i a, __m512i b) {
  const __m128i even_then_odd = _mm_setr_epi8(0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15);
  return max_of_quadwords_512(shuffle_lanes_512(a, even_then_odd), shuffle_lanes_512(b, even_then_odd));
}

PERIGEE_AVX512 __m512i max_of_words_512(__m512i a, __m512i b) {
  const __m128i even_then_odd = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
  return max_of_quadwords_512(shuffle_lanes_512(a, even_then_odd), shuffle_lanes_512(b, even_then_odd));
}

PERIGEE_AVX512 __m512i max_of_bytes_512(__m512i a, __m512i b) {
  const __m128i even_then_odd = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
  return max_of_quadwords_512(shuffle_lanes_512(a, even_then_odd), shuffle_lanes_512(b, even_then_odd));
}

PERIGEE_AVX512 __m512i sum_of_nibbles_512(__m512i counters) {
  const __m512i low = _mm512_set1_epi8(15);
  const __m512i pairs =
      _mm512_add_epi8(_mm512_and_si512(counters, low), _mm512_and_si512(_mm512_srli_epi16(counters, 4), low));
  return _mm512_sad_epu8(pairs, _mm512_setzero_si512());
}

PERIGEE_AVX512 std::uint64_t sum_of_quadwords_512(__m512i sums) {
  std::uint64_t parts[8];
  _mm512_storeu_si512(parts, sums);
  return parts[0] + parts[1] + parts[2] + parts[3] + parts[4] + parts[5] + parts[6] + parts[7];
}

PERIGEE_AVX512 void count_zeros_512(__m512i value, __m512i magnitudes, __m512i& zero, __m512i& negative) {
  const __m512i sevens = _mm512_set1_epi8(0x77);
  const __m512i signs = _mm512_set1_epi8(static_cast<char>(0x88));
  const __m512i zeros = _mm512_andnot_si512(_mm512_add_epi8(magnitudes, sevens), signs);
  zero = _mm512_add_epi8(zero, _mm512_srli_epi16(zeros, 3));
  negative = _mm512_add_epi8(negative, _mm512_srli_epi16(_mm512_and_si512(zeros, value), 3));
}

struct ZeroSums512 {
  __m512i zero;
  __m512i negative;
};

// Where group g lies after the reduction: lane g % 4, byte g / 4.
alignas(64) constexpr std::uint8_t kGroupOrder[64] = {
    0,  16, 32, 48, 1,  17, 33, 49, 2,  18, 34, 50, 3,  19, 35, 51, 4,  20, 36, 52, 5,  21,
    37, 53, 6,  22, 38, 54, 7,  23, 39, 55, 8,  24, 40, 56, 9,  25, 41, 57, 10, 26, 42, 58,
    11, 27, 43, 59, 12, 28, 44, 60, 13, 29, 45, 61, 14, 30, 46, 62, 15, 31, 47, 63};

// 64 groups: 1024 bytes.
PERIGEE_AVX512 void codes_of_64_groups(const std::uint8_t* packed, std::uint8_t* copy, std::uint8_t* codes,
                                       ZeroSums512& sums) {
  const __m512i sevens = _mm512_set1_epi8(0x77);
  __m512i items[8];
  for (int half = 0; half < 2; ++half) {
    __m512i zero = _mm512_setzero_si512();
    __m512i negative = _mm512_setzero_si512();
    for (int i = 4 * half; i < 4 * half + 4; ++i) {
      const __m512i a = load_512(packed + 128 * i);
      const __m512i b = load_512(packed + 128 * i + 64);
      if (copy != nullptr) {
        _mm512_storeu_si512(copy + 128 * i, a);
        _mm512_storeu_si512(copy + 128 * i + 64, b);
      }
      const __m512i a_magnitudes = _mm512_and_si512(a, sevens);
      const __m512i b_magnitudes = _mm512_and_si512(b, sevens);
      count_zeros_512(a, a_magnitudes, zero, negative);
      count_zeros_512(b, b_magnitudes, zero, negative);
      items[i] = max_of_quadwords_512(larger_nibble_512(a_magnitudes), larger_nibble_512(b_magnitudes));
    }
    sums.zero = _mm512_add_epi64(sums.zero, sum_of_nibbles_512(zero));
    sums.negative = _mm512_add_epi64(sums.negative, sum_of_nibbles_512(negative));
  }
  const __m512i low = max_of_words_512(max_of_doublewords_512(items[0], items[1]),
                                       max_of_doublewords_512(items[2], items[3]));
  const __m512i high = max_of_words_512(max_of_doublewords_512(items[4], items[5]),
                                        max_of_doublewords_512(items[6], items[7]));
  const __m512i largest =
      _mm512_and_si512(_mm512_srli_epi16(max_of_bytes_512(low, high), 4), _mm512_set1_epi8(7));
  _mm512_storeu_si512(codes, _mm512_permutexvar_epi8(load_512(kGroupOrder), largest));
}

PERIGEE_AVX512_KERNEL void group_codes_512(const std::uint8_t* packed, std::size_t groups, std::uint8_t* copy,
                                           std::uint8_t* codes, ZeroNibbles& nibbles) {
  ZeroSums512 sums = {_mm512_setzero_si512(), _mm512_setzero_si512()};
  std::size_t group = 0;
  for (; group + 64 <= groups; group += 64) {
    codes_of_64_groups(packed + 16 * group, copy == nullptr ? nullptr : copy + 16 * group, codes + group,
                       sums);
  }
  nibbles.zero += sum_of_quadwords_512(sums.zero);
  nibbles.negative_zero += sum_of_quadwords_512(sums.negative);
  scalar_kernels().group_codes(packed + 16 * group, groups - group,
                               copy == nullptr ? nullptr : copy + 16 * group, codes + group, nibbles);
}

// 64 look-ups in 256 entries: each half of the table is one two-register permutation, the index's top bit
// picks.
PERIGEE_AVX512_KERNEL void expand_pairs_512(const std::uint8_t* scales, std::size_t count,
                                            const std::uint8_t* table, std::uint8_t* out) {
  const __m512i t0 = load_512(table);
  const __m512i t1 = load_512(table + 64);
  const __m512i t2 = load_512(table + 128);
  const __m512i t3 = load_512(table + 192);
  // unpack works lane by lane; these put its quadwords in order.
  const __m512i first_half = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const __m512i second_half = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  std::size_t j = 0;
  for (; j + 64 <= count; j += 64) {
    const __m512i index = load_512(scales + j);
    const __m512i below = _mm512_permutex2var_epi8(t0, index, t1);
    const __m512i above = _mm512_permutex2var_epi8(t2, index, t3);
    const __m512i codes = _mm512_mask_blend_epi8(_mm512_movepi8_mask(index), below, above);
    const __m512i low = _mm512_unpacklo_epi8(codes, codes);
    const __m512i high = _mm512_unpackhi_epi8(codes, codes);
    _mm512_storeu_si512(out + 2 * j, _mm512_permutex2var_epi64(low, first_half, high));
    _mm512_storeu_si512(out + 2 * j + 64, _mm512_permutex2var_epi64(low, second_half, high));
  }
  scalar_kernels().expand_pairs(scales + j, count - j, table, out + 2 * j);
}
