// One token of bf16 activations times 4-bit weights in whole numbers, for AVX2, where decoding weights into
// floats takes longer than bringing them from memory. The eight activations of a lane are multiples of a
// power of two, its *unit*, and weights are multiples of 1/2. Where the sum of all magnitudes, taken as 6
// |x|, stays below 2^24 halves of the unit, no step of the canonical order rounds, so any order gives its
// bits (docs/numerics.md, "Fast forms"). Lanes for which that does not hold, or whose values are no bf16
// numbers, make their group of lanes a wide one, which goes by the definition. Included inside an anonymous
// namespace, after linear_body.h.

// A group of lanes of the token. Pair j of a lane are the elements kPairs[j] and 4 + kPairs[j].
struct WholeGroup {
  I values[4];   // int16 pairs, in units, or in 64 units
  I factors[4];  // for the bytes of weights: 1 or 64 at the pair's elements, 0 at others
  F half_units;  // what a sum counts
};
struct alignas(kPackedAlignment) WholeBlock {
  WholeGroup groups[kGroups];
  std::uint32_t wide;  // bit g: group g goes by the definition
};

// Ahead in the weights, and once a row in their scales, a stream too slow for the processor to notice.
constexpr std::size_t kWholePrefetchBytes = 4096;
constexpr std::size_t kWholePrefetchScales = 512;
constexpr std::size_t kWholeScaleLines = 2;  // of a row of K3's experts with a scale per 32 weights

constexpr int kLargestUnit = 100;       // and the negative of it: exponents far from those that floats lack
constexpr float kLargestSum = 1398101;  // of the |x| of a lane in units: 12 times it is below 2^24
constexpr int kFactorBits = 6;          // bf16 numbers of 16 bits and more, in units, are multiples of 2^8

// The exponent of the lowest bit of x that is set; of zero, and of nothing else, kNoBit.
constexpr int kNoBit = 1000;
PERIGEE_INLINE I lowest_bit(F x) {
  const I size = bits(magnitude(x));
  const I significand = or_bits(and_bits(size, splat_bits(0x007FFFFF)), splat_bits(0x00800000));
  const I bit = and_bits(significand, sub_bits(splat_bits(0), significand));
  const I exponents = add_bits(right<23>(size), right<23>(bits(_mm256_cvtepi32_ps(bit))));
  const I lowest = sub_bits(exponents, splat_bits(127 + 127 + 23));
  return bits(select(equal_bits(size, splat_bits(0)), floats(splat_bits(kNoBit)), floats(lowest)));
}

// x: a packed group of floats. False if it is a wide one.
PERIGEE_INLINE bool pack_whole_group(const std::byte* x, WholeGroup& group) {
  F words[8];
  I unit = splat_bits(kNoBit), lost = splat_bits(0);
  for (std::size_t s = 0; s < 8; ++s) {
    words[s] = load(reinterpret_cast<const float*>(x + s * kVectorBytes));
    unit = _mm256_min_epi32(unit, lowest_bit(words[s]));
    lost = or_bits(lost, left<16>(bits(words[s])));
  }
  unit = bits(select(equal_bits(unit, splat_bits(kNoBit)), floats(splat_bits(0)), floats(unit)));
  const F per_unit = power_of_two(sub_bits(splat_bits(0), unit));
  F sum = zero();
  I values[8], factors[8];
  for (std::size_t s = 0; s < 8; ++s) {
    const F scaled = mul(words[s], per_unit);
    sum = add(sum, magnitude(scaled));
    const I value = _mm256_cvtps_epi32(scaled);
    const Mask large = greater_bits(_mm256_abs_epi32(value), splat_bits(0x7FFF));
    values[s] = bits(select(large, floats(_mm256_srai_epi32(value, kFactorBits)), floats(value)));
    factors[s] = bits(select(large, floats(splat_bits(1 << kFactorBits)), floats(splat_bits(1))));
  }
  // Element 4 + e comes before element e, e = 0, 1, 2, 3; a byte of weights has the elements 2 b and 2 b + 1.
  constexpr std::size_t kPairs[4] = {0, 2, 1, 3};
  for (std::size_t j = 0; j < 4; ++j) {
    const std::size_t high = 2 * kPairs[j], low = high + 1;
    group.values[j] = or_bits(and_bits(values[low], splat_bits(0xFFFF)), left<16>(values[high]));
    const I pair = or_bits(factors[low], left<16>(factors[high]));
    group.factors[j] = j % 2 == 0 ? pair : left<8>(pair);
  }
  group.half_units = power_of_two(sub_bits(unit, splat_bits(1)));
  const Mask fits = _mm256_cmp_ps(sum, splat(kLargestSum), _CMP_LE_OQ);
  const Mask near = greater_bits(splat_bits(kLargestUnit), _mm256_abs_epi32(unit));
  const Mask is_bf16 = equal_bits(lost, splat_bits(0));
  return _mm256_movemask_ps(_mm256_and_ps(fits, _mm256_and_ps(near, is_bf16))) == 0xFF;
}

// Where a token packed as Packing::kWhole has its whole numbers: behind its floats.
constexpr std::size_t kFloatBlockBytes = kGroups * kXGroup<8>;

// floats: one token as pack_floats() packs the few, of whole blocks.
void pack_whole(std::size_t columns, std::byte* floats) {
  const std::size_t blocks = columns / kDotBlock;
  auto* whole = reinterpret_cast<WholeBlock*>(floats + blocks * kFloatBlockBytes);
  for (std::size_t b = 0; b < blocks; ++b) {
    whole[b].wide = 0;
    for (std::size_t g = 0; g < kGroups; ++g) {
      const std::byte* x = floats + b * kFloatBlockBytes + g * kXGroup<8>;
      if (!pack_whole_group(x, whole[b].groups[g])) whole[b].wide |= 1u << g;
    }
  }
}

// Products of 32 doubled weights with the elements of a pair, pair by pair.
PERIGEE_INLINE I pair_products(I weights, I factors, I values) {
  return _mm256_madd_epi16(_mm256_maddubs_epi16(factors, weights), values);
}

// The products of a group of lanes, their sums exact.
PERIGEE_INLINE F whole_products(const std::byte* weights, const WholeGroup& x) {
  const I doubled =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12));
  const I nibble = _mm256_set1_epi8(15);
  const I packed = load_bits(weights);
  const I even = _mm256_shuffle_epi8(doubled, and_bits(packed, nibble));
  const I odd = _mm256_shuffle_epi8(doubled, and_bits(_mm256_srli_epi16(packed, 4), nibble));
  const I sum = add_bits(
      add_bits(pair_products(even, x.factors[0], x.values[0]),
               pair_products(even, x.factors[1], x.values[1])),
      add_bits(pair_products(odd, x.factors[2], x.values[2]), pair_products(odd, x.factors[3], x.values[3])));
  return mul(_mm256_cvtepi32_ps(sum), x.half_units);
}

PERIGEE_INLINE void copy_sums(const FewSums<1>& from, FewSums<1>& to) {
#pragma GCC unroll 4
  for (std::size_t g = 0; g < kGroups; ++g) to[0][g] = from[0][g];
}

// A block with wide groups: a loop, because four copies of both ways took 4 % longer. x: its floats.
template <WeightFormat format>
PERIGEE_APART void add_mixed_block(RowBytes row, const WholeBlock& whole, const std::byte* x,
                                   FewSums<1>& sums) {
  using Form = FloatForm<format>;
  typename Form::Guard guard;
  F scale[kGroups];
  block_scales<format>(row.scales, scale);
  for (std::size_t g = 0; g < kGroups; ++g) {
    const std::byte* values = row.values + g * kGroupBytes<format>;
    if ((whole.wide >> g & 1) != 0) {
      add_group<Form, 1>(values, scale[g], g, x, 0, sums, guard);
    } else {
      sums[0][g] = fma(whole_products(values, whole.groups[g]), scale[g], sums[0][g]);
    }
  }
}

template <WeightFormat format>
PERIGEE_INLINE void add_whole_block(RowBytes row, const WholeBlock& whole, FewSums<1>& sums) {
  F scale[kGroups];
  block_scales<format>(row.scales, scale);
#pragma GCC unroll 4
  for (std::size_t g = 0; g < kGroups; ++g) {
    const F p = whole_products(row.values + g * kGroupBytes<format>, whole.groups[g]);
    sums[0][g] = fma(p, scale[g], sums[0][g]);
  }
}

template <WeightFormat format>
void whole_rows(const LinearTask& task, std::size_t begin, std::size_t end) {
  const std::size_t blocks = task.matrix->columns / kDotBlock;
  const auto* whole = reinterpret_cast<const WholeBlock*>(task.x + blocks * kFloatBlockBytes);
  for (std::size_t r = begin; r < end; ++r) {
    RowBytes row = row_bytes<format>(*task.matrix, r);
    for (std::size_t line = 0; line < kWholeScaleLines; ++line)
      __builtin_prefetch(row.scales + kWholePrefetchScales + line * 64);
    FewSums<1> sums = {{zero(), zero(), zero(), zero()}};
    for (std::size_t b = 0; b < blocks; ++b) {
      prefetch<format>(row.values + kWholePrefetchBytes);
      if (whole[b].wide == 0) {
        add_whole_block<format>(row, whole[b], sums);
      } else {  // by way of a copy, so that the sums may stay in registers
        FewSums<1> mixed;
        copy_sums(sums, mixed);
        add_mixed_block<format>(row, whole[b], task.x + b * kFloatBlockBytes, mixed);
        copy_sums(mixed, sums);
      }
      row.values += value_bytes(format);
      row.scales += scale_bytes(format);
    }
    put(task, 0, r, sums[0]);
  }
}

void whole_or_float_rows(const LinearTask& task, std::size_t begin, std::size_t end) {
  if (task.packing != Packing::kWhole) return float_linear_rows(task, begin, end);
  if (task.matrix->format == WeightFormat::kMxfp4) return whole_rows<WeightFormat::kMxfp4>(task, begin, end);
  return whole_rows<WeightFormat::kNvfp4>(task, begin, end);
}
