// More tokens than streamed_rows takes at once. A panel of some rows and blocks of weights is decoded into a
// tile in the first-level cache; then a few tokens at a time meet all rows of the tile, so that activations
// come from further away once for all those rows. The innermost loop keeps the products of a few rows and
// tokens in registers, as many as there are: with fewer, each waits for the multiply-add before it.
// Included by linear_body.h.
constexpr std::size_t kTileSets = 16 / kTileRows;  // sets of kTileRows rows
constexpr std::size_t kChunkTokens = 66;
// Blocks of a panel: 16 rows of so many leave half of 32 KiB free.
template <typename Form>
constexpr std::size_t kTileBlocks = (16 << 10) / (16 * Form::kSteps * kVectorBytes);

// The scales of a panel, and the weights of one group of its lanes at a time.
template <typename Form, int rows>
struct Tile {
  typename Form::Word words[kTileSets][kTileBlocks<Form>][Form::kSteps][rows];
  F scales[kGroups][kTileSets][kTileBlocks<Form>][rows];
};
template <int rows>
using TileSums = F[kGroups][kChunkTokens][kTileSets][rows];

// The products of one block. at: the tokens, at this group of the block.
template <typename Form, int rows, int tokens>
PERIGEE_INLINE void multiply_block(const typename Form::Word (*words)[rows],
                                   const std::byte* const (&at)[tokens], F (&p)[tokens][rows]) {
#pragma GCC unroll 4
  for (int t = 0; t < tokens; ++t) {
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) p[t][r] = zero();
  }
#pragma GCC unroll 8
  for (std::size_t s = 0; s < Form::kSteps; ++s) {
    typename Form::Word x[tokens];
#pragma GCC unroll 4
    for (int t = 0; t < tokens; ++t) x[t] = in_register(Form::activations(at[t] + s * kVectorBytes));
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      const typename Form::Word w = in_register(words[s][r]);
#pragma GCC unroll 4
      for (int t = 0; t < tokens; ++t) p[t][r] = Form::step(w, x[t], p[t][r]);
    }
  }
}

// Whether the sums of a few rows and tokens stay in registers, beside the products, while a panel is used.
constexpr bool kKeepsSums = kRegisters >= 2 * kTileRows * kTileTokens + kTileTokens + 1;

// x: the first of `tokens` packed tokens, at this group of the panel's first block.
template <typename Form, int rows, int tokens>
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
    multiply_block<Form, rows, tokens>(words[b], at, p);
#pragma GCC unroll 4
    for (int t = 0; t < tokens; ++t) {
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) {
        if constexpr (kKeepsSums) {
          kept[t][r] = fma(p[t][r], scales[b][r], kept[t][r]);
        } else {
          sums[t][0][r] = fma(p[t][r], scales[b][r], fresh && b == 0 ? zero() : sums[t][0][r]);
        }
      }
      at[t] += kXBlock<Form>;
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
  typename Form::Guard guard;
  Tile<Form, rows> tile;
  TileSums<rows> sums;

  // An aggregate would fill 100 KiB with zeros.
  TiledRows(const LinearTask& linear_task, std::size_t first_row, std::size_t row_sets)
      : task(linear_task), first(first_row), sets(row_sets) {}

  // Calls body(row's block, lanes present, set, block of the panel, row of the set) for the whole panel.
  template <typename Body>
  PERIGEE_INLINE void for_blocks(std::size_t first_block, std::size_t blocks, Body&& body) {
    const Matrix& matrix = *task.matrix;
    for (std::size_t r = 0; r < sets * rows; ++r) {
      const RowBytes row = row_bytes<Form::kFormat>(matrix, first + r);
      for (std::size_t b = 0; b < blocks; ++b) {
        const std::size_t at = first_block + b;
        if ((at + 1) * kDotBlock <= matrix.columns) {
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

  void fill_scales(std::size_t first_block, std::size_t blocks) {
    for_blocks(first_block, blocks,
               [&](RowBytes block, std::size_t lanes, std::size_t set, std::size_t b, std::size_t r)
                   PERIGEE_LAMBDA {
                     F scale[kGroups];
                     block_scales<Form::kFormat>(block.scales, scale);
                     if (lanes < kDotLanes) leave_out_lanes(lanes, scale);
#pragma GCC unroll 4
                     for (std::size_t g = 0; g < kGroups; ++g) tile.scales[g][set][b][r] = scale[g];
                   });
  }

  void fill_words(std::size_t first_block, std::size_t blocks, std::size_t g) {
    for_blocks(first_block, blocks,
               [&](RowBytes block, std::size_t, std::size_t set, std::size_t b, std::size_t r)
                   PERIGEE_LAMBDA {
                     typename Form::Word w[Form::kSteps];
                     Form::decode(block.values + g * kGroupBytes<Form::kFormat>, w, guard);
#pragma GCC unroll 8
                     for (std::size_t s = 0; s < Form::kSteps; ++s) tile.words[set][b][s][r] = w[s];
                   });
  }

  // Of the set's rows, a group's share of the lines that are decoded next: of the next panel, or of the first
  // one of the rows that take their place, with the scales. Into the second-level cache, because the first is
  // full of tile and activations.
  PERIGEE_INLINE void prefetch_next(std::size_t set, std::size_t first_block, std::size_t g) const {
    constexpr std::size_t kShare = kTileBlocks<Form> * value_bytes(Form::kFormat) / kGroups;
    const std::size_t next = first_block + kTileBlocks<Form>;
    const bool stays = next * kDotBlock < task.matrix->columns;
    const std::size_t at = first + set * rows + (stays ? 0 : sets * rows);
    const std::size_t values = (stays ? next * value_bytes(Form::kFormat) : 0) + g * kShare;
    const std::size_t scales =
        stays || g > 0 ? 0 : task.matrix->columns * scale_bytes(Form::kFormat) / kDotBlock;
    for (std::size_t r = 0; r < rows; ++r) {
      const RowBytes row = row_bytes<Form::kFormat>(*task.matrix, at + r);
      prefetch_far(row.values + values, kShare);
      prefetch_far(row.scales, scales);
    }
  }
  PERIGEE_INLINE static void prefetch_far(const std::byte* from, std::size_t bytes) {
    for (std::size_t line = 0; line < bytes; line += 64) __builtin_prefetch(from + line, 0, 2);
  }

  // Fetches ahead between the sets of the first tokens, and not while decoding, which waits for memory
  // itself.
  template <int tokens>
  PERIGEE_INLINE void use(std::size_t g, std::size_t token, std::size_t first_block, std::size_t blocks) {
    const std::byte* x =
        task.x + token * task.x_stride + first_block * kXBlock<Form> + g * Form::kSteps * kVectorBytes;
#pragma GCC unroll 1
    for (std::size_t set = 0; set < sets; ++set) {
      if (token == 0) prefetch_next(set, first_block, g);
      use_tile<Form, rows, tokens>(tile.words[set], tile.scales[g][set], blocks, first_block == 0, x,
                                   task.x_stride,
                                   reinterpret_cast<F(*)[kTileSets][rows]>(sums[g][token][set]));
    }
  }

  void use_panel(std::size_t first_block, std::size_t blocks, std::size_t g) {
    static_assert(kTileTokens == 3);
    std::size_t t = 0;
    for (; t + 3 <= task.tokens; t += 3) use<3>(g, t, first_block, blocks);
    if (task.tokens - t == 2) use<2>(g, t, first_block, blocks);
    if (task.tokens - t == 1) use<1>(g, t, first_block, blocks);
  }

  void run() {
    const std::size_t blocks = (task.matrix->columns + kDotBlock - 1) / kDotBlock;
    for (std::size_t b = 0; b < blocks; b += kTileBlocks<Form>) {
      const std::size_t count = blocks - b < kTileBlocks<Form> ? blocks - b : kTileBlocks<Form>;
      fill_scales(b, count);
      for (std::size_t g = 0; g < kGroups; ++g) {
        fill_words(b, count, g);
        use_panel(b, count, g);
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
    for (std::size_t g = 0; g < kGroups; ++g) lanes[g] = sums[g][t][r / rows][r % rows];
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
