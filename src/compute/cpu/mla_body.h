// What MLA needs beside dot products: softmax terms and weighted sums of cache rows. Included inside an
// anonymous namespace, after rows_body.h.
constexpr int kSumQueries = kWidth == 8 ? 6 : 8;  // queries that share a load of a row
constexpr int kSumVectors = 2;                    // of a row that are kept in registers for each of them
constexpr std::size_t kSumColumns = kSumVectors * kWidth;
constexpr std::size_t kSumRows = 128;  // so that a tile of floats and its weights fit the first-level cache

float softmax_terms(float* scores, std::size_t count, float scale, float* total) {
  const F scales = splat(scale);
  F most = splat(-INFINITY);
  std::size_t j = 0;
  for (; j + kWidth <= count; j += kWidth) {
    const F score = mul(load(scores + j), scales);
    store(scores + j, score);
    most = larger(score, most);  // a NaN is left out, as by fmax
  }
  alignas(64) float lanes[kWidth];
  store(lanes, most);
  float largest = lanes[0];
  for (std::size_t l = 1; l < kWidth; ++l) largest = lanes[l] > largest ? lanes[l] : largest;
  for (; j < count; ++j) {
    scores[j] *= scale;
    largest = scores[j] > largest ? scores[j] : largest;
  }
  const F shift = splat(largest);
  for_vectors(0, count, scores, [=](auto at) PERIGEE_LAMBDA { return exp_of(sub(at(scores), shift)); });
  float sum = 0;
  for (j = 0; j < count; ++j) sum += scores[j];
  *total = sum;
  return largest;
}

// The kWidth values at `from`, and the one.
template <WeightFormat format>
PERIGEE_INLINE F values_at(const std::byte* from) {
  if constexpr (format == WeightFormat::kBf16) return floats(left<16>(widen_halves(from)));
  return load(reinterpret_cast<const float*>(from));
}
template <WeightFormat format>
PERIGEE_INLINE float value_at(const std::byte* from) {
  if constexpr (format == WeightFormat::kBf16) {
    std::uint16_t half;
    std::memcpy(&half, from, sizeof half);
    return bf16_value(half);
  } else {
    float value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
}

// Some rows and columns of the task, decoded once for all queries.
struct SumTile {
  const WeightedSumTask& task;
  std::size_t first_row, rows, column, columns;
  F values[kSumRows][kSumVectors];

  SumTile(const WeightedSumTask& sums, std::size_t row, std::size_t row_count, std::size_t first_column)
      : task(sums),
        first_row(row),
        rows(row_count < kSumRows ? row_count : kSumRows),
        column(first_column),
        columns(sums.width - first_column < kSumColumns ? sums.width - first_column : kSumColumns) {}

  template <WeightFormat format>
  void fill() {
    constexpr std::size_t kValue = value_bytes(format) / kDotBlock;
    const std::size_t stride = task.rows->columns * kValue;
    const std::byte* row = task.rows->values + first_row * stride + column * kValue;
    for (std::size_t j = 0; j < rows; ++j, row += stride) {
      if (columns == kSumColumns) {
#pragma GCC unroll 2
        for (int v = 0; v < kSumVectors; ++v)
          values[j][v] = values_at<format>(row + static_cast<std::size_t>(v) * kWidth * kValue);
      } else {
        alignas(64) float part[kSumVectors][kWidth] = {};
        for (std::size_t c = 0; c < columns; ++c)
          part[c / kWidth][c % kWidth] = value_at<format>(row + c * kValue);
        for (int v = 0; v < kSumVectors; ++v) values[j][v] = load(part[v]);
      }
    }
  }

  // Of the tile's rows those that the query sees.
  std::size_t rows_of(std::size_t query) const {
    const std::size_t count = task.counts[query];
    return count <= first_row ? 0 : count - first_row < rows ? count - first_row : rows;
  }

  template <int queries>
  void add_queries(std::size_t query) const {
    const std::size_t common = rows_of(query);
    add_rows<queries>(query, 0, common);
    for (std::size_t q = query + 1; q < query + queries; ++q) {
      const std::size_t more = rows_of(q);
      if (more > common) add_rows<1>(q, common, more);
    }
  }

  template <int queries>
  PERIGEE_INLINE void add_rows(std::size_t query, std::size_t begin, std::size_t end) const {
    F sums[queries][kSumVectors];
    const bool fresh = first_row + begin == 0;
#pragma GCC unroll 8
    for (int q = 0; q < queries; ++q) {
#pragma GCC unroll 2
      for (int v = 0; v < kSumVectors; ++v) sums[q][v] = fresh ? zero() : stored_sum(query, q, v);
    }
    const float* weights = task.weights + query * task.weights_stride + first_row;
    for (std::size_t j = begin; j < end; ++j) {
#pragma GCC unroll 8
      for (int q = 0; q < queries; ++q) {
        const F weight = splat(weights[static_cast<std::size_t>(q) * task.weights_stride + j]);
#pragma GCC unroll 2
        for (int v = 0; v < kSumVectors; ++v) sums[q][v] = fma(weight, values[j][v], sums[q][v]);
      }
    }
#pragma GCC unroll 8
    for (int q = 0; q < queries; ++q) {
#pragma GCC unroll 2
      for (int v = 0; v < kSumVectors; ++v) store_sum(query, q, v, sums[q][v]);
    }
  }

  PERIGEE_INLINE float* sum_at(std::size_t query, int q, int v) const {
    return task.sums + (query + static_cast<std::size_t>(q)) * task.width + column +
           static_cast<std::size_t>(v) * kWidth;
  }
  PERIGEE_INLINE F stored_sum(std::size_t query, int q, int v) const {
    const std::size_t before = static_cast<std::size_t>(v) * kWidth;
    if (before + kWidth <= columns) return load(sum_at(query, q, v));
    return before < columns ? load_part(sum_at(query, q, v), columns - before) : zero();
  }
  PERIGEE_INLINE void store_sum(std::size_t query, int q, int v, F sum) const {
    const std::size_t before = static_cast<std::size_t>(v) * kWidth;
    if (before + kWidth <= columns) return store(sum_at(query, q, v), sum);
    if (before < columns) store_part(sum_at(query, q, v), columns - before, sum);
  }
};

template <WeightFormat format>
void weighted_sum_of(const WeightedSumTask& task, std::size_t queries) {
  const std::size_t most = task.counts[queries - 1];
  for (std::size_t column = 0; column < task.width; column += kSumColumns) {
    for (std::size_t row = 0; row < most; row += kSumRows) {
      SumTile tile(task, row, most - row, column);
      tile.fill<format>();
      std::size_t q = 0;
      for (; q + kSumQueries <= queries; q += kSumQueries) tile.add_queries<kSumQueries>(q);
      for (; q + kSumQueries / 2 <= queries; q += kSumQueries / 2) tile.add_queries<kSumQueries / 2>(q);
      for (; q < queries; ++q) tile.add_queries<1>(q);
    }
  }
}

void weighted_sum(const WeightedSumTask& task, std::size_t queries) {
  if (task.rows->format == WeightFormat::kBf16) return weighted_sum_of<WeightFormat::kBf16>(task, queries);
  weighted_sum_of<WeightFormat::kF32>(task, queries);
}

void combine(const float* piece, std::size_t count, float old_factor, float new_factor, float* sum) {
  const F old_factors = splat(old_factor), new_factors = splat(new_factor);
  for_vectors(0, count, sum,
              [=](auto at) PERIGEE_LAMBDA { return fma(at(piece), new_factors, mul(at(sum), old_factors)); });
}

void divide(float divisor, std::size_t count, float* x) {
  const F divisors = splat(divisor);
  for_vectors(0, count, x, [=](auto at) PERIGEE_LAMBDA { return div(at(x), divisors); });
}

// element * scale * global_scale of a whole row, columns in order.
void decode_row(const Matrix& matrix, std::size_t row, float* out) {
  if (matrix.format != WeightFormat::kBf16) return decode_row_by_tables(matrix, row, out);
  const std::byte* from = matrix.values + row * matrix.columns * sizeof(std::uint16_t);
  std::size_t c = 0;
  for (; c + kWidth <= matrix.columns; c += kWidth)
    store(out + c,
          mul(values_at<WeightFormat::kBf16>(from + c * sizeof(std::uint16_t)), splat(matrix.global_scale)));
  for (; c < matrix.columns; ++c) out[c] = matrix_element(matrix, row, c) * matrix.global_scale;
}
