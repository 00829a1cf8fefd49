// What MLA needs beside dot products: softmax terms and weighted sums of cache rows. Included inside an
// anonymous namespace, after rows_body.h.
constexpr int kSumQueries = 4;  // queries that share a load of a row
constexpr int kSumVectors = kWidth == 8 ? 2 : 4;

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

template <WeightFormat format, int queries, int vectors>
PERIGEE_INLINE void weighted_columns(const WeightedSumTask& task, std::size_t query, std::size_t column) {
  constexpr std::size_t kValue = value_bytes(format) / kDotBlock;
  F sums[queries][vectors];
#pragma GCC unroll 4
  for (int q = 0; q < queries; ++q) {
#pragma GCC unroll 4
    for (int c = 0; c < vectors; ++c) sums[q][c] = zero();
  }
  const float* weights = task.weights + query * task.weights_stride;
  for (std::size_t j = 0; j < task.count; ++j) {
    const std::byte* row = task.rows->values + (j * task.rows->columns + column) * kValue;
#pragma GCC unroll 4
    for (int c = 0; c < vectors; ++c) {
      const F value = values_at<format>(row + static_cast<std::size_t>(c) * kWidth * kValue);
#pragma GCC unroll 4
      for (int q = 0; q < queries; ++q) {
        const F weight = splat(weights[static_cast<std::size_t>(q) * task.weights_stride + j]);
        sums[q][c] = fma(weight, value, sums[q][c]);
      }
    }
  }
#pragma GCC unroll 4
  for (int q = 0; q < queries; ++q) {
    float* to = task.sums + (query + static_cast<std::size_t>(q)) * task.width + column;
#pragma GCC unroll 4
    for (int c = 0; c < vectors; ++c) store(to + static_cast<std::size_t>(c) * kWidth, sums[q][c]);
  }
}

template <WeightFormat format, int queries>
PERIGEE_INLINE void weighted_queries(const WeightedSumTask& task, std::size_t query) {
  std::size_t c = 0;
  for (; c + kSumVectors * kWidth <= task.width; c += kSumVectors * kWidth)
    weighted_columns<format, queries, kSumVectors>(task, query, c);
  for (; c + kWidth <= task.width; c += kWidth) weighted_columns<format, queries, 1>(task, query, c);
  for (; c < task.width; ++c) {
    for (std::size_t q = query; q < query + queries; ++q) {
      float sum = 0;
      for (std::size_t j = 0; j < task.count; ++j) {
        const std::byte* at =
            task.rows->values + (j * task.rows->columns + c) * (value_bytes(format) / kDotBlock);
        sum = std::fma(task.weights[q * task.weights_stride + j], value_at<format>(at), sum);
      }
      task.sums[q * task.width + c] = sum;
    }
  }
}

template <WeightFormat format>
void weighted_sum_of(const WeightedSumTask& task, std::size_t queries) {
  std::size_t q = 0;
  for (; q + kSumQueries <= queries; q += kSumQueries) weighted_queries<format, kSumQueries>(task, q);
  for (; q < queries; ++q) weighted_queries<format, 1>(task, q);
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
