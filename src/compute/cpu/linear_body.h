// Dot products of weight rows with packed activations, over the vectors of vector_*_body.h. Included inside
// an anonymous namespace. A *form* says how a group of kWidth lanes of a weight row becomes words of
// registers and how a word meets an activation; everything else is the same for all forms:
//   few tokens   decode a group into registers, use it for all tokens; one row is one stream of bytes
//   more tokens  decode a block of some rows into a tile in the first-level cache, use it for a chunk of
//                tokens
constexpr std::size_t kGroups = kDotLanes / kWidth;
constexpr std::size_t kVectorBytes = kWidth * sizeof(float);
constexpr std::size_t kPrefetchBytes = 2048;  // ahead in a row of weights, and into the next rows
constexpr std::size_t kChunkTokens = 32;
constexpr std::size_t kChunkBytes = 384 << 10;  // packed activations of a chunk: they stay in level two

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

// The last, incomplete block of a row, filled up with zeros.
template <WeightFormat format>
struct PaddedTail {
  alignas(64) std::byte values[value_bytes(format)] = {};
  std::byte scales[16] = {};

  PERIGEE_INLINE PaddedTail(const Matrix& matrix, RowBytes row) {
    const std::size_t whole = matrix.columns / kDotBlock;
    const std::size_t left = matrix.columns % kDotBlock;
    std::memcpy(values, row.values + whole * value_bytes(format), left * value_bytes(format) / kDotBlock);
    if constexpr (format == WeightFormat::kFp8Tile) {
      std::memcpy(scales, row.scales + whole * scale_bytes(format), (left + 127) / 128 * sizeof(float));
    } else if constexpr (scale_bytes(format) != 0) {
      std::memcpy(scales, row.scales + whole * scale_bytes(format), left * scale_bytes(format) / kDotBlock);
    }
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
    for (std::size_t g = 0; g < kGroups; ++g) scale[g] = pick(values, load_bits(kLaneOfFour + g * kWidth));
  } else if constexpr (format == WeightFormat::kNvfp4) {
    I codes[16 / kWidth];
    widen_16(from, codes);
    F values[16 / kWidth];
    for (std::size_t v = 0; v < 16 / kWidth; ++v) values[v] = e4m3_values(codes[v]);
    for (std::size_t g = 0; g < kGroups; ++g)
      scale[g] = pick(values[g * (16 / kWidth) / kGroups], load_bits(kLaneOfTwo + g * kWidth));
  } else if constexpr (format == WeightFormat::kFp8Tile) {
    float tiles[2];
    std::memcpy(tiles, from, sizeof tiles);
    for (std::size_t g = 0; g < kGroups; ++g) scale[g] = splat(tiles[g * 2 / kGroups]);
  } else {
    for (std::size_t g = 0; g < kGroups; ++g) scale[g] = splat(1);
  }
}

constexpr std::size_t lanes_of(std::size_t columns) {
  return (columns + kDotLaneElements - 1) / kDotLaneElements;
}

// A lane that a row does not reach keeps its sum, even -0: fma(+0, -1, lane) == lane.
PERIGEE_INLINE void leave_out_lanes(std::size_t present, F (&scale)[kGroups]) {
  alignas(64) float lanes[kDotLanes];
  for (std::size_t g = 0; g < kGroups; ++g) store(lanes + g * kWidth, scale[g]);
  for (std::size_t l = present; l < kDotLanes; ++l) lanes[l] = -1;
  for (std::size_t g = 0; g < kGroups; ++g) scale[g] = load(lanes + g * kWidth);
}

// Products in float: any weights, any activations.
template <WeightFormat weights>
struct FloatForm {
  static constexpr WeightFormat kFormat = weights;
  static constexpr std::size_t kSteps = 8;
  using Word = F;
  struct Guard {
    static constexpr bool kNeeded = false;
  };

  // Group g of the block at `values`: w[i] has the element 4, 0, 5, 1, 6, 2, 7, 3 of each lane.
  PERIGEE_INLINE static void decode(const std::byte* values, std::size_t g, Word (&w)[8], Guard&) {
    const std::byte* from = values + g * (value_bytes(weights) / kGroups);
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
  PERIGEE_INLINE static F step(Word w, const std::byte* x, F p) {
    return fma(w, load(reinterpret_cast<const float*>(x)), p);
  }
};

// The lines of one block; an address behind the matrix does no harm.
template <WeightFormat format>
PERIGEE_INLINE void prefetch(const std::byte* block) {
  for (std::size_t line = 0; line < value_bytes(format); line += 64) __builtin_prefetch(block + line);
}

template <typename Form, int tokens>
PERIGEE_INLINE void add_block(RowBytes row, std::size_t lanes, const std::byte* x, std::size_t x_stride,
                              F (&sums)[tokens][kGroups], typename Form::Guard& guard) {
  prefetch<Form::kFormat>(row.values + kPrefetchBytes);
  F scale[kGroups];
  block_scales<Form::kFormat>(row.scales, scale);
  if (lanes < kDotLanes) leave_out_lanes(lanes, scale);
#pragma GCC unroll 4
  for (std::size_t g = 0; g < kGroups; ++g) {
    typename Form::Word w[Form::kSteps];
    Form::decode(row.values, g, w, guard);
    const std::byte* group = x + g * Form::kSteps * kVectorBytes;
#pragma GCC unroll 4
    for (int t = 0; t < tokens; ++t) {
      F p = zero();
#pragma GCC unroll 8
      for (std::size_t s = 0; s < Form::kSteps; ++s) {
        p = Form::step(w[s], group + static_cast<std::size_t>(t) * x_stride + s * kVectorBytes, p);
      }
      sums[t][g] = fma(p, scale[g], sums[t][g]);
    }
  }
}

PERIGEE_INLINE void put(const LinearTask& task, std::size_t token, std::size_t row, const F* sums) {
  const float sum = sum_groups(sums) * task.matrix->global_scale;
  task.y[token * task.y_stride + row - task.first_row] = task.round ? round_to_bf16(sum) : sum;
}

// Few tokens: sums in registers.
template <typename Form, int tokens>
void streamed_rows(const LinearTask& task, std::size_t begin, std::size_t end) {
  constexpr std::size_t kXBlock = kGroups * Form::kSteps * kVectorBytes;
  const Matrix& matrix = *task.matrix;
  const std::size_t blocks = matrix.columns / kDotBlock;
  const std::size_t left = matrix.columns % kDotBlock;
  for (std::size_t r = begin; r < end; ++r) {
    const RowBytes row = row_bytes<Form::kFormat>(matrix, r);
    typename Form::Guard guard;
    F sums[tokens][kGroups];
    for (int t = 0; t < tokens; ++t) {
      for (std::size_t g = 0; g < kGroups; ++g) sums[t][g] = zero();
    }
    for (std::size_t b = 0; b < blocks; ++b) {
      const RowBytes block{row.values + b * value_bytes(Form::kFormat),
                           row.scales + b * scale_bytes(Form::kFormat)};
      add_block<Form, tokens>(block, kDotLanes, task.x + b * kXBlock, task.x_stride, sums, guard);
    }
    if (left != 0) {
      const PaddedTail<Form::kFormat> tail(matrix, row);
      add_block<Form, tokens>(tail.bytes(), lanes_of(left), task.x + blocks * kXBlock, task.x_stride, sums,
                              guard);
    }
    if constexpr (Form::Guard::kNeeded) {
      if (guard.raised()) {
        streamed_rows<typename Form::Gradual, tokens>(task, r, r + 1);
        continue;
      }
    }
    for (int t = 0; t < tokens; ++t) put(task, static_cast<std::size_t>(t), r, sums[t]);
  }
}

template <typename Form, int rows>
struct Tile {
  typename Form::Word words[kGroups][Form::kSteps][rows];
  F scales[kGroups][rows];
};

template <int rows>
using TileSums = F[kChunkTokens][kGroups][rows];

template <typename Form, int rows>
PERIGEE_INLINE void fill_tile(RowBytes row, std::size_t lanes, int index, Tile<Form, rows>& tile,
                              typename Form::Guard& guard) {
  prefetch<Form::kFormat>(row.values + kPrefetchBytes);
  F scale[kGroups];
  block_scales<Form::kFormat>(row.scales, scale);
  if (lanes < kDotLanes) leave_out_lanes(lanes, scale);
#pragma GCC unroll 4
  for (std::size_t g = 0; g < kGroups; ++g) {
    typename Form::Word w[Form::kSteps];
    Form::decode(row.values, g, w, guard);
    for (std::size_t s = 0; s < Form::kSteps; ++s) tile.words[g][s][index] = w[s];
    tile.scales[g][index] = scale[g];
  }
}

template <typename Form, int rows, int tokens>
PERIGEE_INLINE void use_tile(const Tile<Form, rows>& tile, const std::byte* x, std::size_t x_stride,
                             F (*sums)[kGroups][rows]) {
  for (std::size_t g = 0; g < kGroups; ++g) {
    F p[tokens][rows];
#pragma GCC unroll 16
    for (int t = 0; t < tokens; ++t) {
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) p[t][r] = zero();
    }
#pragma GCC unroll 8
    for (std::size_t s = 0; s < Form::kSteps; ++s) {
      const std::byte* at = x + (g * Form::kSteps + s) * kVectorBytes;
#pragma GCC unroll 16
      for (int t = 0; t < tokens; ++t) {
#pragma GCC unroll 4
        for (int r = 0; r < rows; ++r)
          p[t][r] = Form::step(tile.words[g][s][r], at + static_cast<std::size_t>(t) * x_stride, p[t][r]);
      }
    }
#pragma GCC unroll 16
    for (int t = 0; t < tokens; ++t) {
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) sums[t][g][r] = fma(p[t][r], tile.scales[g][r], sums[t][g][r]);
    }
  }
}

template <typename Form, int rows>
PERIGEE_INLINE void use_tile_for(std::size_t tokens, const Tile<Form, rows>& tile, const std::byte* x,
                                 std::size_t x_stride, TileSums<rows>& sums) {
  std::size_t t = 0;
  for (; t + kTileTokens <= tokens; t += kTileTokens)
    use_tile<Form, rows, kTileTokens>(tile, x + t * x_stride, x_stride, sums + t);
  for (; t < tokens; ++t) use_tile<Form, rows, 1>(tile, x + t * x_stride, x_stride, sums + t);
}

// Rows [first, first + rows) for at most kChunkTokens tokens.
template <typename Form, int rows>
void tiled_rows(const LinearTask& task, std::size_t first) {
  constexpr std::size_t kXBlock = kGroups * Form::kSteps * kVectorBytes;
  constexpr WeightFormat format = Form::kFormat;
  const Matrix& matrix = *task.matrix;
  const std::size_t blocks = matrix.columns / kDotBlock;
  const std::size_t left = matrix.columns % kDotBlock;
  Tile<Form, rows> tile;
  TileSums<rows> sums;
  typename Form::Guard guard;
  for (std::size_t t = 0; t < task.tokens; ++t) {
    for (std::size_t g = 0; g < kGroups; ++g) {
      for (int r = 0; r < rows; ++r) sums[t][g][r] = zero();
    }
  }
  for (std::size_t b = 0; b < blocks + (left != 0 ? 1 : 0); ++b) {
    for (int r = 0; r < rows; ++r) {
      const RowBytes row = row_bytes<format>(matrix, first + static_cast<std::size_t>(r));
      if (b < blocks) {
        const RowBytes block{row.values + b * value_bytes(format), row.scales + b * scale_bytes(format)};
        fill_tile<Form, rows>(block, kDotLanes, r, tile, guard);
      } else {
        const PaddedTail<format> tail(matrix, row);
        fill_tile<Form, rows>(tail.bytes(), lanes_of(left), r, tile, guard);
      }
    }
    use_tile_for<Form, rows>(task.tokens, tile, task.x + b * kXBlock, task.x_stride, sums);
  }
  if constexpr (Form::Guard::kNeeded) {
    if (guard.raised()) return tiled_rows<typename Form::Gradual, rows>(task, first);
  }
  for (std::size_t t = 0; t < task.tokens; ++t) {
    for (int r = 0; r < rows; ++r) {
      F lanes[kGroups];
      for (std::size_t g = 0; g < kGroups; ++g) lanes[g] = sums[t][g][r];
      put(task, t, first + static_cast<std::size_t>(r), lanes);
    }
  }
}

template <typename Form>
void chunk_rows(const LinearTask& task, std::size_t begin, std::size_t end) {
  switch (task.tokens) {
    case 1:
      return streamed_rows<Form, 1>(task, begin, end);
    case 2:
      return streamed_rows<Form, 2>(task, begin, end);
    case 3:
      return streamed_rows<Form, 3>(task, begin, end);
    case 4:
      return streamed_rows<Form, 4>(task, begin, end);
    default:
      break;
  }
  std::size_t r = begin;
  for (; r + kTileRows <= end; r += kTileRows) tiled_rows<Form, kTileRows>(task, r);
  for (; r < end; ++r) tiled_rows<Form, 1>(task, r);
}

template <typename Form>
void form_rows(const LinearTask& task, std::size_t begin, std::size_t end) {
  const std::size_t fitting = kChunkBytes / (task.x_stride + 1) / kTileTokens * kTileTokens;
  const std::size_t most = fitting < 8 ? 8 : fitting > kChunkTokens ? kChunkTokens : fitting;
  for (std::size_t t = 0; t < task.tokens; t += most) {
    LinearTask chunk = task;
    chunk.tokens = task.tokens - t < most ? task.tokens - t : most;
    chunk.x += t * task.x_stride;
    chunk.y += t * task.y_stride;
    chunk_rows<Form>(chunk, begin, end);
  }
}

// One block of a token, or its zero-padded tail: element j of every lane, j in the order of the dot product.
PERIGEE_INLINE void pack_block(const float* x, std::byte* out) {
  for (std::size_t g = 0; g < kGroups; ++g) {
    F words[8];
    FloatForm<WeightFormat::kF32>::Guard guard;
    FloatForm<WeightFormat::kF32>::decode(reinterpret_cast<const std::byte*>(x), g, words, guard);
    for (std::size_t s = 0; s < 8; ++s) store(reinterpret_cast<float*>(out) + (g * 8 + s) * kWidth, words[s]);
  }
}

void pack_floats(const float* x, std::size_t columns, std::byte* out) {
  constexpr std::size_t kXBlock = kDotBlock * sizeof(float);
  const std::size_t blocks = columns / kDotBlock;
  const std::size_t left = columns % kDotBlock;
  for (std::size_t b = 0; b < blocks; ++b) pack_block(x + b * kDotBlock, out + b * kXBlock);
  if (left == 0) return;
  alignas(64) float tail[kDotBlock] = {};
  std::memcpy(tail, x + blocks * kDotBlock, left * sizeof(float));
  pack_block(tail, out + blocks * kXBlock);
}

void float_linear_rows(const LinearTask& task, std::size_t begin, std::size_t end) {
  switch (task.matrix->format) {
    case WeightFormat::kF32:
      return form_rows<FloatForm<WeightFormat::kF32>>(task, begin, end);
    case WeightFormat::kBf16:
      return form_rows<FloatForm<WeightFormat::kBf16>>(task, begin, end);
    case WeightFormat::kMxfp4:
      return form_rows<FloatForm<WeightFormat::kMxfp4>>(task, begin, end);
    case WeightFormat::kNvfp4:
      return form_rows<FloatForm<WeightFormat::kNvfp4>>(task, begin, end);
    case WeightFormat::kFp8Tile:
      return form_rows<FloatForm<WeightFormat::kFp8Tile>>(task, begin, end);
  }
}
