// Dot products of weight rows with packed activations, over the forms of forms_body.h. Included inside an
// anonymous namespace.
//   few tokens   decode a group into registers, use it for all tokens; a row is a stream of bytes
//   more tokens  decode a block of some rows into a tile in the first-level cache, use it for a chunk of
//                tokens
#include "compute/cpu/forms_body.h"

constexpr std::size_t kPrefetchBytes = 2048;  // ahead in a row of weights, and into the next rows

// The lines of one block; an address behind the matrix does no harm.
template <WeightFormat format>
PERIGEE_INLINE void prefetch(const std::byte* block) {
  for (std::size_t line = 0; line < value_bytes(format); line += 64) __builtin_prefetch(block + line);
}

// Bytes of a group of lanes of a block of a packed token.
template <std::size_t steps>
constexpr std::size_t kXGroup = steps* kVectorBytes;

// Where a token has the first group of lanes of a block; the next group is a piece further.
template <std::size_t steps>
PERIGEE_INLINE std::size_t x_offset(const PackedShape& shape, std::size_t block) {
  return block / shape.piece_blocks * kGroups * shape.piece_stride +
         block % shape.piece_blocks * kXGroup<steps>;
}

// Sums of the few tokens of streamed rows.
template <int tokens>
using FewSums = F[tokens][kGroups];

// The products of a group of lanes with a few tokens, side by side: a chain of steps each. x: the first
// token's group.
template <typename Form, int tokens>
PERIGEE_INLINE void add_products(const typename Form::Word (&w)[Form::kSteps], F scale, const std::byte* x,
                                 std::size_t x_stride, std::size_t g, F (*sums)[kGroups]) {
  F p[tokens];
#pragma GCC unroll 4
  for (int t = 0; t < tokens; ++t) p[t] = zero();
#pragma GCC unroll 8
  for (std::size_t s = 0; s < Form::kSteps; ++s) {
#pragma GCC unroll 4
    for (int t = 0; t < tokens; ++t) {
      const std::byte* at = x + static_cast<std::size_t>(t) * x_stride + s * kVectorBytes;
      p[t] = Form::step(w[s], Form::activations(at), p[t]);
    }
  }
#pragma GCC unroll 4
  for (int t = 0; t < tokens; ++t) sums[t][g] = fma(p[t], scale, sums[t][g]);
}

// values: group g of a block of weights. x: the first of the few packed tokens at that block.
template <typename Form, int tokens>
PERIGEE_INLINE void add_group(const std::byte* values, F scale, std::size_t g, const std::byte* x,
                              std::size_t x_stride, FewSums<tokens>& sums, typename Form::Guard& guard) {
  typename Form::Word w[Form::kSteps];
  Form::decode(values, w, guard);
  x += g * kXGroup<Form::kSteps>;
  constexpr int kFirst = tokens < 4 ? tokens : 4;
  add_products<Form, kFirst>(w, scale, x, x_stride, g, sums);
  if constexpr (tokens > kFirst) {
    static_assert(tokens - kFirst <= 4);
    add_products<Form, tokens - kFirst>(w, scale, x + kFirst * x_stride, x_stride, g, sums + kFirst);
  }
}

template <typename Form, int tokens>
PERIGEE_INLINE void add_block(RowBytes row, const std::byte* x, std::size_t x_stride, FewSums<tokens>& sums,
                              typename Form::Guard& guard) {
  F scale[kGroups];
  block_scales<Form::kFormat>(row.scales, scale);
#pragma GCC unroll 4
  for (std::size_t g = 0; g < kGroups; ++g) {
    const std::byte* values = row.values + g * kGroupBytes<Form::kFormat>;
    add_group<Form, tokens>(values, scale[g], g, x, x_stride, sums, guard);
  }
}

// The last `columns` of a row. Groups that they fill are read where they lie.
template <typename Form, int tokens>
PERIGEE_INLINE void add_tail(RowBytes row, std::size_t columns, const std::byte* x, std::size_t x_stride,
                             FewSums<tokens>& sums, typename Form::Guard& guard) {
  constexpr WeightFormat kFormat = Form::kFormat;
  std::byte scales[16] = {};
  copy_tail_scales<kFormat>(row.scales, columns, scales);
  F scale[kGroups];
  block_scales<kFormat>(scales, scale);
  if (columns % kGroupColumns != 0) leave_out_lanes(lanes_of(columns), scale);
#pragma GCC unroll 4
  for (std::size_t g = 0; g < kGroups; ++g) {
    const std::byte* values = row.values + g * kGroupBytes<kFormat>;
    if ((g + 1) * kGroupColumns <= columns) {
      add_group<Form, tokens>(values, scale[g], g, x, x_stride, sums, guard);
    } else if (g * kGroupColumns < columns) {
      const std::size_t bytes = (columns - g * kGroupColumns) * value_bytes(kFormat) / kDotBlock;
      const PaddedGroup<kFormat> padded(values, bytes);
      add_group<Form, tokens>(padded.values, scale[g], g, x, x_stride, sums, guard);
    }
  }
}

PERIGEE_INLINE void put(const LinearTask& task, std::size_t token, std::size_t row, const F* sums) {
  const float sum = sum_of_row(add_groups(sums)) * task.matrix->global_scale;
  task.y[token * task.y_stride + row - task.first_row] = task.round ? round_to_bf16(sum) : sum;
}

// Rows that are read side by side for few tokens. Several streams of bytes bring more of a long row from
// memory at a time; a row of 4-bit weights is so short that fetching ahead already meets the next ones. The
// floats of a few tokens do not stay in the first-level cache from row to row, so many rows share each block
// of them.
template <typename Form, int tokens>
constexpr std::size_t streams() {
  constexpr bool kLong = Form::kFormat == WeightFormat::kBf16;
  if (tokens > 1 && Form::kSteps == 8) return 16;
  return kLong || (tokens == 4 && Form::kSteps == 4) ? 4 : 1;
}

// `rows` rows from `first` on, for few tokens. False if the guard forbids the form.
template <typename Form, int tokens, std::size_t rows>
PERIGEE_INLINE bool stream_rows(const LinearTask& task, std::size_t first) {
  const std::size_t blocks = task.matrix->columns / kDotBlock;
  const std::size_t left = task.matrix->columns % kDotBlock;
  RowBytes row[rows];
  FewSums<tokens> sums[rows];
  for (std::size_t r = 0; r < rows; ++r) {
    row[r] = row_bytes<Form::kFormat>(*task.matrix, first + r);
    for (int t = 0; t < tokens; ++t) {
      for (std::size_t g = 0; g < kGroups; ++g) sums[r][t][g] = zero();
    }
  }
  typename Form::Guard guard;
  const auto row_at = [&](std::size_t r, std::size_t b) PERIGEE_LAMBDA {
    return RowBytes{row[r].values + b * value_bytes(Form::kFormat),
                    row[r].scales + b * scale_bytes(Form::kFormat)};
  };
  const auto x_at = [&](std::size_t b)
                        PERIGEE_LAMBDA { return task.x + b * kGroups * kXGroup<Form::kSteps>; };
  const auto add_row = [&](std::size_t r, std::size_t b) PERIGEE_LAMBDA {
    const RowBytes block = row_at(r, b);
    prefetch<Form::kFormat>(block.values + kPrefetchBytes);
    add_block<Form, tokens>(block, x_at(b), task.shape.token_stride, sums[r], guard);
  };
  for (std::size_t b = 0; b < blocks; ++b) {
    if constexpr (rows <= 4) {
#pragma GCC unroll 4
      for (std::size_t r = 0; r < rows; ++r) add_row(r, b);
    } else {
#pragma GCC unroll 1
      for (std::size_t r = 0; r < rows; ++r) add_row(r, b);
    }
  }
  if (left != 0) {
#pragma GCC unroll 4
    for (std::size_t r = 0; r < rows; ++r) {
      add_tail<Form, tokens>(row_at(r, blocks), left, x_at(blocks), task.shape.token_stride, sums[r], guard);
    }
  }
  if constexpr (Form::Guard::kNeeded) {
    if (guard.raised()) return false;
  }
  for (std::size_t r = 0; r < rows; ++r) {
    for (int t = 0; t < tokens; ++t) put(task, static_cast<std::size_t>(t), first + r, sums[r][t]);
  }
  return true;
}

template <typename Form, int tokens>
void streamed_rows(const LinearTask& task, std::size_t begin, std::size_t end) {
  for (std::size_t r = begin; r < end;) {
    constexpr std::size_t kStreams = streams<Form, tokens>();
    const std::size_t rows = end - r < kStreams ? 1 : kStreams;
    const bool done =
        rows == 1 ? stream_rows<Form, tokens, 1>(task, r) : stream_rows<Form, tokens, kStreams>(task, r);
    if constexpr (Form::Guard::kNeeded) {
      if (!done) streamed_rows<typename Form::Gradual, tokens>(task, r, r + rows);
    } else {
      static_cast<void>(done);
    }
    r += rows;
  }
}

#include "compute/cpu/tiles_body.h"

constexpr std::size_t few_tokens_of(WeightFormat format) {
  const bool nibbles = format == WeightFormat::kMxfp4 || format == WeightFormat::kNvfp4;
  return nibbles ? kFewTokensOfNibbles : kFewTokens;
}

template <typename Form, std::size_t tokens = few_tokens_of(Form::kFormat)>
void few_tokens(const LinearTask& task, std::size_t begin, std::size_t end) {
  if (task.tokens == tokens) return streamed_rows<Form, static_cast<int>(tokens)>(task, begin, end);
  if constexpr (tokens > 1) few_tokens<Form, tokens - 1>(task, begin, end);
}

template <typename Form>
void chunk_rows(const LinearTask& task, std::size_t begin, std::size_t end) {
  std::size_t r = begin;
  while (r + kTileRows <= end) {
    const std::size_t sets = (end - r) / kTileRows < kTileSets ? (end - r) / kTileRows : kTileSets;
    tiled_rows<Form, kTileRows>(task, r, sets);
    r += sets * kTileRows;
  }
  for (; r < end; ++r) tiled_rows<Form, 1>(task, r, 1);
}

template <typename Form>
void form_rows(const LinearTask& task, std::size_t begin, std::size_t end) {
  if (task.tokens <= few_tokens_of(Form::kFormat)) return few_tokens<Form>(task, begin, end);
  const std::size_t chunks = (task.tokens + kChunkTokens - 1) / kChunkTokens;
  const std::size_t most = (task.tokens + chunks * kTileTokens - 1) / (chunks * kTileTokens) * kTileTokens;
  for (std::size_t t = 0; t < task.tokens; t += most) {
    LinearTask chunk = task;
    chunk.tokens = task.tokens - t < most ? task.tokens - t : most;
    chunk.x += t * task.shape.token_stride;
    chunk.y += t * task.y_stride;
    chunk_rows<Form>(chunk, begin, end);
  }
}

// The smallest magnitude that is not zero, of those seen: the least 2 |x| - 1 as an unsigned word, so that
// zero is large.
struct SmallestMagnitude {
  I least;

  PERIGEE_INLINE SmallestMagnitude() : least(splat_bits(0xFFFFFFFF)) {}
  PERIGEE_INLINE void see(I words) {
    least = smaller_unsigned(least, sub_bits(left<1>(words), splat_bits(1)));
  }
  PERIGEE_INLINE float value() const {
    std::uint32_t words[kWidth], smallest = 0xFFFFFFFF;
    store_bits(words, least);
    for (const std::uint32_t word : words) smallest = word < smallest ? word : smallest;
    return smallest == 0xFFFFFFFF ? INFINITY : std::bit_cast<float>((smallest + 1) >> 1);
  }
};

// The largest magnitude of those seen; NaN if there was one.
struct LargestMagnitude {
  I most;

  PERIGEE_INLINE LargestMagnitude() : most(splat_bits(0)) {}
  PERIGEE_INLINE void see(F x) { most = larger_bits(most, bits(magnitude(x))); }
  PERIGEE_INLINE float value() const {
    std::uint32_t words[kWidth], largest = 0;
    store_bits(words, most);
    for (const std::uint32_t word : words) largest = word > largest ? word : largest;
    return std::bit_cast<float>(largest);
  }
};

struct SeenMagnitudes {
  SmallestMagnitude smallest;
  LargestMagnitude largest;

  PERIGEE_INLINE SeenMagnitudes() {}  // an implicit one would lack the target's instructions
};

// One block of a token, or its zero-padded tail: element j of every lane, j in the order of the dot product.
PERIGEE_INLINE void pack_block(const float* x, std::byte* out, std::size_t piece_stride,
                               SeenMagnitudes& seen) {
  for (std::size_t g = 0; g < kGroups; ++g) {
    F words[8];
    FloatForm<WeightFormat::kF32>::Guard guard;
    FloatForm<WeightFormat::kF32>::decode(
        reinterpret_cast<const std::byte*>(x) + g * kGroupBytes<WeightFormat::kF32>, words, guard);
    std::byte* to = out + g * piece_stride;
    for (std::size_t s = 0; s < 8; ++s) {
      store(reinterpret_cast<float*>(to + s * kVectorBytes), words[s]);
      seen.smallest.see(bits(words[s]));
      seen.largest.see(words[s]);
    }
  }
}

MagnitudeRange pack_floats(const float* x, std::size_t columns, const PackedShape& shape, std::byte* out) {
  const std::size_t blocks = columns / kDotBlock;
  const std::size_t left = columns % kDotBlock;
  SeenMagnitudes seen;
  const auto pack = [&](const float* from, std::size_t block) PERIGEE_LAMBDA {
    pack_block(from, out + x_offset<8>(shape, block), shape.piece_stride, seen);
  };
  for (std::size_t b = 0; b < blocks; ++b) pack(x + b * kDotBlock, b);
  if (left != 0) {
    alignas(64) float tail[kDotBlock] = {};
    std::memcpy(tail, x + blocks * kDotBlock, left * sizeof(float));
    pack(tail, blocks);
  }
  return {seen.smallest.value(), seen.largest.value()};
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
