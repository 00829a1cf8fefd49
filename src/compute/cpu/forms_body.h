// How weights of each format become vectors of vector_*_body.h. Included inside an anonymous namespace, by
// linear_body.h. A *form* says how a group of kWidth lanes of a weight row becomes words of registers and how
// a word meets an activation; the loops of linear_body.h are the same for all forms.
constexpr std::size_t kGroups = kDotLanes / kWidth;
constexpr std::size_t kGroupColumns = kDotBlock / kGroups;
constexpr std::size_t kVectorBytes = kWidth * sizeof(float);

// What 256 columns of a row take.
constexpr std::size_t value_bytes(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return 4 * kDotBlock;
    case WeightFormat::kBf16:
      return 2 * kDotBlock;
    case WeightFormat::kFp8Tile:
      return kDotBlock;
    default:
      return kDotBlock / 2;
  }
}
constexpr std::size_t scale_bytes(WeightFormat format) {
  switch (format) {
    case WeightFormat::kMxfp4:
      return kDotBlock / 32;
    case WeightFormat::kNvfp4:
      return kDotBlock / 16;
    case WeightFormat::kFp8Tile:
      return kDotBlock / 128 * sizeof(float);
    default:
      return 0;
  }
}

template <WeightFormat format>
constexpr std::size_t kGroupBytes = value_bytes(format) / kGroups;

struct RowBytes {
  const std::byte* values = nullptr;
  const std::byte* scales = nullptr;
};

template <WeightFormat format>
RowBytes row_bytes(const Matrix& matrix, std::size_t row) {
  const std::size_t columns = matrix.columns;
  RowBytes bytes{matrix.values + row * (columns * value_bytes(format) / kDotBlock), nullptr};
  if constexpr (format == WeightFormat::kFp8Tile) {
    bytes.scales = matrix.scales + row / 128 * ((columns + 127) / 128) * sizeof(float);
  } else if constexpr (scale_bytes(format) != 0) {
    bytes.scales = matrix.scales + row * (columns * scale_bytes(format) / kDotBlock);
  }
  return bytes;
}

// memcpy, which GCC makes a slow `rep movs` of when it can bound the size.
template <std::size_t piece>
PERIGEE_INLINE void copy_piece(const std::byte*& from, std::byte*& to) {
  std::memcpy(to, from, piece);
  from += piece;
  to += piece;
}
PERIGEE_INLINE void copy_few(const std::byte* from, std::size_t bytes, std::byte* to) {
  for (std::size_t i = 16; i <= bytes; i += 16) copy_piece<16>(from, to);
  if (bytes & 8) copy_piece<8>(from, to);
  if (bytes & 4) copy_piece<4>(from, to);
  if (bytes & 2) copy_piece<2>(from, to);
  if (bytes & 1) copy_piece<1>(from, to);
}

template <WeightFormat format>
PERIGEE_INLINE void copy_tail_scales(const std::byte* from, std::size_t columns, std::byte (&to)[16]) {
  if constexpr (format == WeightFormat::kFp8Tile) {
    copy_few(from, (columns + 127) / 128 * sizeof(float), to);
  } else if constexpr (scale_bytes(format) != 0) {
    copy_few(from, columns * scale_bytes(format) / kDotBlock, to);
  }
}

// A group of lanes that the row ends in, filled up with zeros.
template <WeightFormat format>
struct PaddedGroup {
  static_assert(kGroupBytes<format> % kVectorBytes == 0);
  alignas(64) std::byte values[kGroupBytes<format>] = {};

  // By whole vectors where that can be: what is stored in pieces and then loaded at once waits for all of
  // them.
  PERIGEE_INLINE PaddedGroup(const std::byte* from, std::size_t bytes) {
    if (bytes % 4 != 0) {
      copy_few(from, bytes, values);
    } else {
      for (std::size_t at = 0; at < bytes; at += kVectorBytes)
        store_bits(values + at, load_words(from + at, (bytes - at) / 4));
    }
  }
};

// The last, incomplete block of a row, filled up with zeros.
template <WeightFormat format>
struct PaddedTail {
  alignas(64) std::byte values[value_bytes(format)] = {};
  std::byte scales[16] = {};

  PERIGEE_INLINE PaddedTail(const Matrix& matrix, RowBytes row) {
    const std::size_t whole = matrix.columns / kDotBlock;
    const std::size_t left = matrix.columns % kDotBlock;
    std::memcpy(values, row.values + whole * value_bytes(format), left * value_bytes(format) / kDotBlock);
    copy_tail_scales<format>(row.scales + whole * scale_bytes(format), left, scales);
  }
  RowBytes bytes() const { return {values, scales}; }
};

// E4M3 codes, one in each lane; the bits above the lowest eight count nothing.
PERIGEE_INLINE F e4m3_values(I codes) {
  const I magnitude = and_bits(codes, splat_bits(0x7F));
  const I rebased = add_bits(left<20>(magnitude), splat_bits(120u << 23));
  // Below 2^-6 the eight codes are steps of 2^-9: what is left of 2^-6 (1 + m / 8) without its one.
  const F subnormal = sub(floats(add_bits(rebased, splat_bits(1u << 23))), splat(0x1p-6f));
  F value = select(greater_bits(splat_bits(8), magnitude), subnormal, floats(rebased));
  value = select(equal_bits(magnitude, splat_bits(0x7F)), floats(splat_bits(0x7FC00000)), value);
  return floats(or_bits(bits(value), left<24>(and_bits(codes, splat_bits(0x80)))));
}

// Byte 0 is 2^-127, a subnormal float; 255 is NaN.
PERIGEE_INLINE F e8m0_values(I codes) {
  const I powers = larger_bits(left<23>(codes), splat_bits(0x00400000));
  return select(equal_bits(codes, splat_bits(255)), floats(splat_bits(0x7FC00000)), floats(powers));
}

alignas(64) constexpr std::uint32_t kLaneOfFour[32] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3,
                                                       4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7};
alignas(64) constexpr std::uint32_t kLaneOfTwo[32] = {0,  0,  1,  1,  2,  2,  3,  3,  4,  4,  5,
                                                      5,  6,  6,  7,  7,  8,  8,  9,  9,  10, 10,
                                                      11, 11, 12, 12, 13, 13, 14, 14, 15, 15};

// scale[g]: the block scales as they belong to the lanes.
template <WeightFormat format>
PERIGEE_INLINE void block_scales(const std::byte* from, F (&scale)[kGroups]) {
  if constexpr (format == WeightFormat::kMxfp4) {
    I codes[1];
    widen_8(from, codes);
    const F values = e8m0_values(codes[0]);
#pragma GCC unroll 4
    for (std::size_t g = 0; g < kGroups; ++g) scale[g] = pick(values, load_bits(kLaneOfFour + g * kWidth));
  } else if constexpr (format == WeightFormat::kNvfp4) {
    I codes[16 / kWidth];
    widen_16(from, codes);
    F values[16 / kWidth];
    for (std::size_t v = 0; v < 16 / kWidth; ++v) values[v] = e4m3_values(codes[v]);
#pragma GCC unroll 4
    for (std::size_t g = 0; g < kGroups; ++g)
      scale[g] = pick(values[g * (16 / kWidth) / kGroups], load_bits(kLaneOfTwo + g * kWidth));
  } else if constexpr (format == WeightFormat::kFp8Tile) {
    float tiles[2];
    std::memcpy(tiles, from, sizeof tiles);
#pragma GCC unroll 4
    for (std::size_t g = 0; g < kGroups; ++g) scale[g] = splat(tiles[g * 2 / kGroups]);
  } else {
#pragma GCC unroll 4
    for (std::size_t g = 0; g < kGroups; ++g) scale[g] = splat(1);
  }
}

constexpr std::size_t lanes_of(std::size_t columns) {
  return (columns + kDotLaneElements - 1) / kDotLaneElements;
}

alignas(64) constexpr std::uint32_t kLaneNumbers[32] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                                        11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
                                                        22, 23, 24, 25, 26, 27, 28, 29, 30, 31};

// A lane that a row does not reach keeps its sum, even -0: fma(+0, -1, lane) == lane.
PERIGEE_INLINE void leave_out_lanes(std::size_t present, F (&scale)[kGroups]) {
  const I count = splat_bits(static_cast<std::uint32_t>(present));
  for (std::size_t g = 0; g < kGroups; ++g) {
    const Mask reached = greater_bits(count, load_bits(kLaneNumbers + g * kWidth));
    scale[g] = select(reached, scale[g], splat(-1));
  }
}

// Products in float: any weights, any activations.
template <WeightFormat weights>
struct FloatForm {
  static constexpr WeightFormat kFormat = weights;
  static constexpr std::size_t kSteps = 8;
  static constexpr bool kMultiplies = true;  // a step is fma(w, x, p) of vectors of floats
  using Word = F;
  struct Guard {
    static constexpr bool kNeeded = false;
  };

  // The group of lanes at `from`: w[i] has the element 4, 0, 5, 1, 6, 2, 7, 3 of each lane.
  PERIGEE_INLINE static void decode(const std::byte* from, Word (&w)[8], Guard&) {
    if constexpr (weights == WeightFormat::kF32) {
      I low[4], high[4];
      transpose_chunks(from, 32, low);
      transpose_chunks(from + 16, 32, high);
      for (std::size_t s = 0; s < 4; ++s) {
        w[2 * s] = floats(high[s]);
        w[2 * s + 1] = floats(low[s]);
      }
    } else if constexpr (weights == WeightFormat::kBf16) {
      I pairs[4];
      transpose_chunks(from, 16, pairs);
      const I upper = splat_bits(0xFFFF0000);
      w[0] = floats(left<16>(pairs[2]));
      w[1] = floats(left<16>(pairs[0]));
      w[2] = floats(and_bits(pairs[2], upper));
      w[3] = floats(and_bits(pairs[0], upper));
      w[4] = floats(left<16>(pairs[3]));
      w[5] = floats(left<16>(pairs[1]));
      w[6] = floats(and_bits(pairs[3], upper));
      w[7] = floats(and_bits(pairs[1], upper));
    } else if constexpr (weights == WeightFormat::kFp8Tile) {
      I low, high;
      split_words(from, low, high);
      w[0] = e4m3_values(high);
      w[1] = e4m3_values(low);
      w[2] = e4m3_values(right<8>(high));
      w[3] = e4m3_values(right<8>(low));
      w[4] = e4m3_values(right<16>(high));
      w[5] = e4m3_values(right<16>(low));
      w[6] = e4m3_values(right<24>(high));
      w[7] = e4m3_values(right<24>(low));
    } else {
      decode_nibbles(from, w);
    }
  }
  PERIGEE_INLINE static Word activations(const std::byte* x) {
    return load(reinterpret_cast<const float*>(x));
  }
  PERIGEE_INLINE static F step(Word w, Word x, F p) { return fma(w, x, p); }
};
