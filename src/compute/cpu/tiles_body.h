// More tokens than streamed_rows takes at once. A panel of some rows and blocks of weights is decoded into a
// tile in the first-level cache; then a few tokens at a time meet all rows of the tile, so that activations
// come from further away once for all those rows. The innermost loop keeps the products of a few rows and
// tokens in registers, as many as there are: with fewer, each waits for the multiply-add before it.
// Included by linear_body.h.
constexpr std::size_t kTileSets = 16 / kTileRows;  // sets of kTileRows rows
constexpr std::size_t kChunkTokens = 66;
// Blocks of a panel: those of a piece of activations. 16 rows of them leave half of 32 KiB free.
template <typename Form>
constexpr std::size_t kTileBlocks = kPackedPiece / kXGroup<Form::kSteps>;

// The scales of a panel, and the weights of one group of its lanes at a time.
template <typename Form, int rows>
struct Tile {
  typename Form::Word words[kTileSets][kTileBlocks<Form>][Form::kSteps][rows];
  F scales[kGroups][kTileSets][kTileBlocks<Form>][rows];
};
template <int rows>
using TileSums = F[kGroups][kChunkTokens][kTileSets][rows];

// How the sums of a few products p are begun and added to a row's sum (docs/numerics.md, "Forward pass").
enum class Adding {
  kByDefinition,  // p starts as fma(w, x, +0); fma(p, scale, sum)
  kScaled,        // p starts as w x, which leaves it -0 where all its products are -0: fma(p + 0, scale, sum)
  kPlain,         // p starts as w x; p + sum, which has the bits of fma(p, 1, sum)
  kFolded,        // the same, with weights that were multiplied by their scale
};

// A zeroed register for every product costs a sixth of the time, so tiles of floats start from w x where that
// gives the same bits. Pairs are multiplied and added in one step.
template <typename Form>
constexpr Adding kFastAdding = scale_bytes(Form::kFormat) == 0         ? Adding::kPlain
                               : !Form::kMultiplies                    ? Adding::kByDefinition
                               : Form::kFormat == WeightFormat::kMxfp4 ? Adding::kFolded
                                                                       : Adding::kScaled;

// Without scales they are the same: sums that only ever had something added to +0 never are -0. With scales
// they are if no product and no sum of some rounds to zero, which would be a -0 that p + 0 takes away;
// MXFP4's are powers of two, so that whole panels may be folded (kSmallestFolded).
template <typename Form>
PERIGEE_INLINE Adding way_of_adding(const LinearTask& task) {
  const bool same = scale_bytes(Form::kFormat) == 0 || task.packing == Packing::kFloats;
  return same ? kFastAdding<Form> : Adding::kByDefinition;
}

// Scales that may be folded: with activations of 2^-90 to 2^90 no sum of products rounds to a subnormal
// number or overflows, neither with the scale in it nor without.
constexpr float kSmallestFolded = 0x1p-30f;
constexpr float kLargestFolded = 0x1p30f;

// The products of one block. at: the tokens, at this group of the block.
template <typename Form, int rows, int tokens, Adding adding>
PERIGEE_INLINE void multiply_block(const typename Form::Word (*words)[rows],
                                   const std::byte* const (&at)[tokens], F (&p)[tokens][rows]) {
#pragma GCC unroll 8
  for (std::size_t s = 0; s < Form::kSteps; ++s) {
    typename Form::Word x[tokens];
#pragma GCC unroll 4
    for (int t = 0; t < tokens; ++t) x[t] = in_register(Form::activations(at[t] + s * kVectorBytes));
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      const typename Form::Word w = in_register(words[s][r]);
#pragma GCC unroll 4
      for (int t = 0; t < tokens; ++t) {
        if constexpr (Form::kMultiplies && adding != Adding::kByDefinition) {
          p[t][r] = s == 0 ? mul(w, x[t]) : Form::step(w, x[t], p[t][r]);
        } else {
          p[t][r] = Form::step(w, x[t], s == 0 ? zero() : p[t][r]);
        }
      }
    }
  }
}

// Whether the sums of a few rows and tokens stay in registers, beside the products, while a panel is used.
constexpr bool kKeepsSums = kRegisters >= 2 * kTileRows * kTileTokens + kTileTokens + 1;

template <int rows, int tokens, Adding adding>
PERIGEE_INLINE void add_to_sums(const F (&p)[tokens][rows], const F* scales, bool first,
                                F (&kept)[tokens][rows], F (*sums)[kTileSets][rows]) {
#pragma GCC unroll 4
  for (int t = 0; t < tokens; ++t) {
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      F& sum = kKeepsSums ? kept[t][r] : sums[t][0][r];
      const F before = first && !kKeepsSums ? zero() : sum;
      if constexpr (adding == Adding::kPlain || adding == Adding::kFolded) {
        sum = add(p[t][r], before);
      } else {
        sum = fma(adding == Adding::kScaled ? add(p[t][r], zero()) : p[t][r], scales[r], before);
      }
    }
  }
}

// x: the first of `tokens` packed tokens, at this group of the panel's first block.
template <typename Form, int rows, int tokens, Adding adding>
PERIGEE_APART static void use_tile(const typename Form::Word (*words)[Form::kSteps][rows],
                                   const F (*scales)[rows], std::size_t blocks, bool fresh,
                                   const std::byte* x, std::size_t x_stride, F (*sums)[kTileSets][rows]) {
  const std::byte* at[tokens];
  F kept[tokens][rows];
#pragma GCC unroll 4
  for (int t = 0; t < tokens; ++t) {
    at[t] = x + static_cast<std::size_t>(t) * x_stride;
#pragma GCC unroll 4
    for (int r = 0; kKeepsSums && r < rows; ++r) kept[t][r] = fresh ? zero() : sums[t][0][r];
  }
#pragma GCC unroll 1
  for (std::size_t b = 0; b < blocks; ++b) {
    F p[tokens][rows];
    multiply_block<Form, rows, tokens, adding>(words[b], at, p);
    add_to_sums<rows, tokens, adding>(p, scales[b], fresh && b == 0, kept, sums);
#pragma GCC unroll 4
    for (int t = 0; t < tokens; ++t) {
      at[t] += kXGroup<Form::kSteps>;
      PERIGEE_KEEP(at[t]);  // or GCC computes every address of every token beforehand and spills them
    }
  }
#pragma GCC unroll 4
  for (int t = 0; t < tokens; ++t) {
#pragma GCC unroll 4
    for (int r = 0; kKeepsSums && r < rows; ++r) sums[t][0][r] = kept[t][r];
  }
}

template <typename Form, int rows>
struct TiledRows {
  const LinearTask& task;
  std::size_t first;  // row
  std::size_t sets;   // of `rows` rows
  Adding adding;
  typename Form::Guard guard;
  Tile<Form, rows> tile;
  TileSums<rows> sums;

  // An aggregate would fill 100 KiB with zeros.
  TiledRows(const LinearTask& linear_task, std::size_t first_row, std::size_t row_sets)
      : task(linear_task), first(first_row), sets(row_sets), adding(way_of_adding<Form>(linear_task)) {}

  // Calls body(row's block, lanes present, set, block of the panel, row of the set) for the whole panel. The
  // body reads the first `read` columns of a block and their scales.
  template <typename Body>
  PERIGEE_INLINE void for_blocks(std::size_t first_block, std::size_t blocks, std::size_t read, Body&& body) {
    const Matrix& matrix = *task.matrix;
    for (std::size_t r = 0; r < sets * rows; ++r) {
      const RowBytes row = row_bytes<Form::kFormat>(matrix, first + r);
      for (std::size_t b = 0; b < blocks; ++b) {
        const std::size_t at = first_block + b;
        if (at * kDotBlock + read <= matrix.columns) {
          body(RowBytes{row.values + at * value_bytes(Form::kFormat),
                        row.scales + at * scale_bytes(Form::kFormat)},
               kDotLanes, r / rows, b, r % rows);
        } else {
          const PaddedTail<Form::kFormat> tail(matrix, row);
          body(tail.bytes(), lanes_of(matrix.columns % kDotBlock), r / rows, b, r % rows);
        }
      }
    }
  }

  // False if they forbid the fast way: MXFP4's that may not be folded.
  bool fill_scales(std::size_t first_block, std::size_t blocks) {
    I least = bits(splat(kSmallestFolded)), most = bits(splat(kLargestFolded));
    for_blocks(first_block, blocks, kDotBlock,
               [&](RowBytes block, std::size_t lanes, std::size_t set, std::size_t b, std::size_t r)
                   PERIGEE_LAMBDA {
                     F scale[kGroups];
                     block_scales<Form::kFormat>(block.scales, scale);
                     if (lanes < kDotLanes) leave_out_lanes(lanes, scale);
#pragma GCC unroll 4
                     for (std::size_t g = 0; g < kGroups; ++g) {
                       tile.scales[g][set][b][r] = scale[g];
                       if constexpr (kFastAdding<Form> != Adding::kFolded) continue;
                       least = smaller_bits(least, bits(scale[g]));  // the order of floats, if positive
                       most = larger_bits(most, bits(scale[g]));
                     }
                   });
    return !any(greater_bits(bits(splat(kSmallestFolded)), least)) &&
           !any(greater_bits(most, bits(splat(kLargestFolded))));
  }

  template <Adding way>
  void fill_words(std::size_t first_block, std::size_t blocks, std::size_t g) {
    for_blocks(first_block, blocks, (g + 1) * kGroupColumns,
               [&](RowBytes block, std::size_t, std::size_t set, std::size_t b, std::size_t r)
                   PERIGEE_LAMBDA {
                     typename Form::Word w[Form::kSteps];
                     Form::decode(block.values + g * kGroupBytes<Form::kFormat>, w, guard);
#pragma GCC unroll 8
                     for (std::size_t s = 0; s < Form::kSteps; ++s) {
                       if constexpr (way == Adding::kFolded) w[s] = mul(w[s], tile.scales[g][set][b][r]);
                       tile.words[set][b][s][r] = w[s];
                     }
                   });
  }

  // Fetches what is decoded next while a panel is used: the next panel, or the rows that take the place of
  // these. Row by row between the calls, a group's share of its lines: all at once they would hold up the
  // activations, and while a panel is decoded the decoding. Into the second-level cache, because the first is
  // full of tile and activations.
  class Ahead {
   public:
    Ahead(const TiledRows& tiled, std::size_t first_block, std::size_t g)
        : calls_a_set_(static_cast<std::ptrdiff_t>((tiled.task.tokens + kTileTokens - 1) / kTileTokens)) {
      const Matrix& matrix = *tiled.task.matrix;
      const std::size_t next = first_block + kTileBlocks<Form>;
      const bool stays = next * kDotBlock < matrix.columns;
      const RowBytes row = row_bytes<Form::kFormat>(matrix, tiled.first + (stays ? 0 : tiled.sets * rows));
      values_ = row.values + (stays ? next * value_bytes(Form::kFormat) : 0) + g * kShare;
      stride_ = matrix.columns * value_bytes(Form::kFormat) / kDotBlock;
      scales_ = row.scales;
      scales_stride_ = stays || g != 0 ? 0 : matrix.columns * scale_bytes(Form::kFormat) / kDotBlock;
    }

    // Called once for each set and few tokens: `rows` rows of a set in so many calls.
    PERIGEE_INLINE void fetch() {
      for (due_ += rows; due_ > 0; due_ -= calls_a_set_) {
        prefetch_far(values_, kShare);
        prefetch_far(scales_, scales_stride_);
        values_ += stride_;
        scales_ += scales_stride_;
      }
    }

   private:
    static constexpr std::size_t kShare = kTileBlocks<Form> * value_bytes(Form::kFormat) / kGroups;

    PERIGEE_INLINE static void prefetch_far(const std::byte* from, std::size_t bytes) {
      for (std::size_t line = 0; line < bytes; line += 64) __builtin_prefetch(from + line, 0, 2);
    }

    const std::ptrdiff_t calls_a_set_;
    std::ptrdiff_t due_ = 0;  // rows times calls that are behind
    const std::byte *values_, *scales_;
    std::size_t stride_, scales_stride_;
  };

  // A panel meets all tokens.
  template <Adding way>
  struct PanelUse {
    const TiledRows& tiled;
    TileSums<rows>& sums;
    std::size_t first_block, blocks, g;
    Ahead ahead{tiled, first_block, g};

    template <int tokens>
    PERIGEE_INLINE void meet(std::size_t token) {
      const PackedShape& shape = tiled.task.shape;
      const std::byte* x = tiled.task.x + x_offset<Form::kSteps>(shape, first_block) +
                           g * shape.piece_stride + token * shape.token_stride;
#pragma GCC unroll 1
      for (std::size_t set = 0; set < tiled.sets; ++set) {
        ahead.fetch();
        auto* const set_sums = reinterpret_cast<F(*)[kTileSets][rows]>(sums[g][token][set]);
        use_tile<Form, rows, tokens, way>(tiled.tile.words[set], tiled.tile.scales[g][set], blocks,
                                          first_block == 0, x, shape.token_stride, set_sums);
      }
    }

    void run() {
      static_assert(kTileTokens == 3);
      const std::size_t tokens = tiled.task.tokens;
      std::size_t t = 0;
      for (; t + 3 <= tokens; t += 3) meet<3>(t);
      if (tokens - t == 2) meet<2>(t);
      if (tokens - t == 1) meet<1>(t);
    }
  };

  // Blocks of a panel that have the group: a short last one may end before it.
  std::size_t blocks_of_group(std::size_t first_block, std::size_t blocks, std::size_t g) const {
    const std::size_t last = first_block + blocks - 1;
    return last * kDotBlock + g * kGroupColumns < task.matrix->columns ? blocks : blocks - 1;
  }

  template <Adding way>
  void run_panel(std::size_t first_block, std::size_t blocks) {
    for (std::size_t g = 0; g < kGroups; ++g) {
      const std::size_t count = blocks_of_group(first_block, blocks, g);
      if (count == 0) continue;
      fill_words<way>(first_block, count, g);
      PanelUse<way>{*this, sums, first_block, count, g}.run();
    }
  }

  void run() {
    const std::size_t blocks = (task.matrix->columns + kDotBlock - 1) / kDotBlock;
    for (std::size_t b = 0; b < blocks; b += kTileBlocks<Form>) {
      const std::size_t count = blocks - b < kTileBlocks<Form> ? blocks - b : kTileBlocks<Form>;
      const bool same = adding == Adding::kPlain || fill_scales(b, count);
      if (adding == kFastAdding<Form> && same) {
        run_panel<kFastAdding<Form>>(b, count);
      } else {
        run_panel<Adding::kByDefinition>(b, count);
      }
    }
  }

  // kWidth rows at once: their results are neighbours.
  void finish() const {
    const std::size_t count = sets * rows;
    for (std::size_t t = 0; t < task.tokens; ++t) {
      for (std::size_t r = 0; r < count; r += kWidth) {
        F row[kWidth];
#pragma GCC unroll 16
        for (std::size_t i = 0; i < kWidth; ++i) row[i] = r + i < count ? row_lanes(t, r + i) : zero();
        const F y = stored(mul(sum_of_rows(row), splat(task.matrix->global_scale)), task.round);
        put_rows(y, count - r, task.y + t * task.y_stride + first + r - task.first_row);
      }
    }
  }

  PERIGEE_INLINE F row_lanes(std::size_t t, std::size_t r) const {
    F lanes[kGroups];
#pragma GCC unroll 4
    for (std::size_t g = 0; g < kGroups; ++g) {
      const bool present = g * kGroupColumns < task.matrix->columns;
      lanes[g] = present ? sums[g][t][r / rows][r % rows] : zero();
    }
    return add_groups(lanes);
  }
  PERIGEE_INLINE static void put_rows(F values, std::size_t count, float* y) {
    if (count >= kWidth) return store(y, values);
    float several[kWidth];
    store(several, values);
    std::memcpy(y, several, count * sizeof(float));
  }
};

// Rows [first, first + sets * rows) for at most kChunkTokens tokens.
template <typename Form, int rows>
void tiled_rows(const LinearTask& task, std::size_t first, std::size_t sets) {
  TiledRows<Form, rows> tiled(task, first, sets);
  tiled.run();
  if constexpr (Form::Guard::kNeeded) {
    if (tiled.guard.raised()) return tiled_rows<typename Form::Gradual, rows>(task, first, sets);
  }
  tiled.finish();
}
