// Dot products of bf16 weights with bf16 activations by vdpbf16ps, which multiplies a pair of each and adds
// the odd product first: two steps of the canonical order in one, because a lane's elements 4 + s and s are
// made a pair. It flushes subnormal operands and results to zero, so this form may be used only where none
// can occur (docs/numerics.md); PairGradualForm does the same steps by two FMAs. Included inside an anonymous
// namespace, after linear_body.h; needs dot_pairs(sum, weights, activations).

// |activation| from which products with 4-bit weights, multiples of 2^-1, are multiples of 2^-126.
constexpr float kSmallestForNibbles = 0x1p-118f;
// The same for bf16 weights that are at least 2^-63, which the guard checks row by row.
constexpr float kSmallestForBf16 = 0x1p-49f;
constexpr std::uint16_t kSmallWeight = (127 - 63) << 8;  // bits of |w| shifted left by one

template <WeightFormat weights>
struct PairGradualForm {
  static constexpr WeightFormat kFormat = weights;
  static constexpr std::size_t kSteps = 4;
  static constexpr bool kMultiplies = false;
  using Word = I;
  struct Guard {
    static constexpr bool kNeeded = false;
  };

  // w[s]: the pair of elements s (low half) and 4 + s of each lane.
  PERIGEE_INLINE static void decode(const std::byte* from, Word (&w)[4], Guard&) { decode_pairs(from, w); }
  PERIGEE_INLINE static void decode_pairs(const std::byte* from, Word (&w)[4]) {
    if constexpr (weights == WeightFormat::kBf16) {
      const I together =
          _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
      I chunks[4];
      for (std::size_t i = 0; i < 4; ++i)
        chunks[i] = _mm512_shuffle_epi8(four_chunks(from + 16 * i, 16), together);
      transpose_words(chunks[0], chunks[1], chunks[2], chunks[3], w);
    } else {
      const I values = _mm512_broadcast_i64x4(nibble_values());
      const I packed = load_bits(from);
      w[0] = _mm512_permutexvar_epi16(packed, values);
      w[1] = _mm512_permutexvar_epi16(_mm512_srli_epi16(packed, 4), values);
      w[2] = _mm512_permutexvar_epi16(_mm512_srli_epi16(packed, 8), values);
      w[3] = _mm512_permutexvar_epi16(_mm512_srli_epi16(packed, 12), values);
    }
  }
  // The 16 values as bf16: their table is as wide as the index's five bits, so no bit need be masked.
  PERIGEE_INLINE static __m256i nibble_values() {
    return _mm256_setr_epi16(0, 0x3F00, 0x3F80, 0x3FC0, 0x4000, 0x4040, 0x4080, 0x40C0, short(0x8000),
                             short(0xBF00), short(0xBF80), short(0xBFC0), short(0xC000), short(0xC040),
                             short(0xC080), short(0xC0C0));
  }
  PERIGEE_INLINE static Word activations(const std::byte* x) { return load_bits(x); }
  PERIGEE_INLINE static F step(Word w, Word pairs, F p) {
    const I upper = splat_bits(0xFFFF0000);
    p = fma(floats(and_bits(w, upper)), floats(and_bits(pairs, upper)), p);
    return fma(floats(left<16>(w)), floats(left<16>(pairs)), p);
  }
};

template <WeightFormat weights>
struct PairForm : PairGradualForm<weights> {
  using Gradual = PairGradualForm<weights>;
  using Word = I;
  // Remembers the smallest weight that is not zero: 2 |w| - 1 as an unsigned word, so that zero is large.
  struct Guard {
    static constexpr bool kNeeded = weights == WeightFormat::kBf16;
    I smallest;

    PERIGEE_INLINE Guard() : smallest(splat_bits(0xFFFFFFFF)) {}
    PERIGEE_INLINE void see(I pairs) {
      const I one = _mm512_set1_epi16(1);
      smallest = _mm512_min_epu16(smallest, _mm512_sub_epi16(_mm512_add_epi16(pairs, pairs), one));
    }
    PERIGEE_INLINE bool raised() const {
      const I missing = _mm512_subs_epu16(_mm512_set1_epi16(kSmallWeight - 1), smallest);
      return _mm512_test_epi32_mask(missing, missing) != 0;
    }
  };
  PERIGEE_INLINE static void decode(const std::byte* from, Word (&w)[4], Guard& guard) {
    Gradual::decode_pairs(from, w);
    if constexpr (Guard::kNeeded) {
      for (std::size_t s = 0; s < 4; ++s) guard.see(w[s]);
    }
  }
  PERIGEE_INLINE static F step(Word w, Word x, F p) { return dot_pairs(p, w, x); }
};

PairContent pack_pairs(const float* x, std::size_t columns, const PackedShape& shape, std::byte* out) {
  const I upper = splat_bits(0xFFFF0000);
  I lost = splat_bits(0);
  SmallestMagnitude smallest;
  for (std::size_t at = 0; at < columns; at += kDotBlock) {
    alignas(64) float block[kDotBlock] = {};
    std::memcpy(block, x + at, (columns - at < kDotBlock ? columns - at : kDotBlock) * sizeof(float));
    std::byte* to = out + x_offset<4>(shape, at / kDotBlock);
    for (std::size_t g = 0; g < kGroups; ++g, to += shape.piece_stride) {
      I low[4], high[4];
      const std::byte* from = reinterpret_cast<const std::byte*>(block) + g * kWidth * 32;
      transpose_chunks(from, 32, low);
      transpose_chunks(from + 16, 32, high);
      for (std::size_t s = 0; s < 4; ++s) {
        lost = or_bits(lost, or_bits(left<16>(low[s]), left<16>(high[s])));
        smallest.see(low[s]);
        smallest.see(high[s]);
        _mm512_storeu_si512(to + s * kVectorBytes, or_bits(right<16>(low[s]), and_bits(high[s], upper)));
      }
    }
  }
  return {.exact = _mm512_test_epi32_mask(lost, lost) == 0, .smallest = smallest.value()};
}

template <WeightFormat weights>
void pair_rows(const LinearTask& task, std::size_t begin, std::size_t end) {
  if (task.packing == Packing::kPairs) return form_rows<PairForm<weights>>(task, begin, end);
  return form_rows<PairGradualForm<weights>>(task, begin, end);
}

void pair_linear_rows(const LinearTask& task, std::size_t begin, std::size_t end) {
  if (task.packing == Packing::kFloats || task.packing == Packing::kGradualFloats)
    return float_linear_rows(task, begin, end);
  switch (task.matrix->format) {
    case WeightFormat::kBf16:
      return pair_rows<WeightFormat::kBf16>(task, begin, end);
    case WeightFormat::kMxfp4:
      return pair_rows<WeightFormat::kMxfp4>(task, begin, end);
    case WeightFormat::kNvfp4:
      return pair_rows<WeightFormat::kNvfp4>(task, begin, end);
    default:
      return;  // packing_for asks for floats
  }
}
