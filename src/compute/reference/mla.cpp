// MLA in absorbed form (docs/model.md, "MLA"): scores against the latent cache, values taken from it after
// the softmax. Keys are visited in pieces of kMlaPiece absolute positions, which are combined in order.
#include <algorithm>
#include <cmath>

#include "compute/reference/reference_ops.h"
#include "numerics/canonical_dot.h"
#include "numerics/elementary.h"

namespace perigee {
namespace {

// Softmax-weighted sum of rows, with the largest score kept apart.
struct Attended {
  float largest = -INFINITY;
  float total = 0;
  std::vector<float> sum;  // [latent]
};

float kv_b_value(const Matrix& kv_b, std::size_t row, std::size_t column) {
  return matrix_element(kv_b, row, column) * matrix_scale(kv_b, row, column) * kv_b.global_scale;
}

// The head's query as it meets a cache row: its nope part taken through the key half of kv_b, then its rope
// part.
std::vector<float> absorbed_query(const float* q, const Matrix& kv_b, std::size_t first_row,
                                  const MlaParameters& p) {
  std::vector<float> query(p.latent_dim + p.rope_dim);
  for (std::size_t d = 0; d < p.nope_dim; ++d) {
    for (std::size_t c = 0; c < p.latent_dim; ++c) {
      query[c] = std::fma(kv_b_value(kv_b, first_row + d, c), q[d], query[c]);
    }
  }
  std::copy_n(q + p.nope_dim, p.rope_dim, query.begin() + static_cast<std::ptrdiff_t>(p.latent_dim));
  return query;
}

// The cache as floats, piece by piece.
std::vector<std::vector<float>> float_pieces(const MlaCacheView& cache, std::size_t width) {
  std::vector<std::vector<float>> pieces;
  for (std::size_t begin = 0; begin < cache.positions; begin += kMlaPiece) {
    const std::size_t count = std::min(kMlaPiece, cache.positions - begin);
    const Matrix rows{
        .format = cache.format, .rows = count, .columns = width, .values = cache.pieces[pieces.size()]};
    std::vector<float>& piece = pieces.emplace_back(count * width);
    for (std::size_t i = 0; i < piece.size(); ++i) piece[i] = matrix_element(rows, i / width, i % width);
  }
  return pieces;
}

Attended attend_piece(const std::vector<float>& query, const float* rows, std::size_t count,
                      std::size_t latent, float scale) {
  std::vector<float> scores(count);
  Attended piece;
  piece.sum.resize(latent);
  for (std::size_t j = 0; j < count; ++j) {
    scores[j] = canonical_dot(query.data(), rows + j * query.size(), query.size()) * scale;
    piece.largest = std::fmax(piece.largest, scores[j]);
  }
  for (std::size_t j = 0; j < count; ++j) {
    const float weight = exact_exp(scores[j] - piece.largest);
    piece.total += weight;
    const float* row = rows + j * query.size();
    for (std::size_t c = 0; c < latent; ++c) piece.sum[c] = std::fma(weight, row[c], piece.sum[c]);
  }
  return piece;
}

void combine(Attended& all, const Attended& piece) {
  const float largest = std::fmax(all.largest, piece.largest);
  const float old_factor = exact_exp(all.largest - largest);
  const float new_factor = exact_exp(piece.largest - largest);
  all.largest = largest;
  all.total = std::fma(piece.total, new_factor, all.total * old_factor);
  for (std::size_t c = 0; c < all.sum.size(); ++c) {
    all.sum[c] = std::fma(piece.sum[c], new_factor, all.sum[c] * old_factor);
  }
}

}  // namespace

void ReferenceOps::mla(ConstRows q, const Matrix& kv_b, const MlaCacheView& cache, std::size_t first_position,
                       const MlaParameters& p, Rows y) const {
  const std::size_t key_dim = p.nope_dim + p.rope_dim;
  const std::size_t head_rows = p.nope_dim + p.value_dim;
  const float scale = 1.0f / std::sqrt(static_cast<float>(key_dim));
  const std::vector<std::vector<float>> pieces = float_pieces(cache, p.latent_dim + p.rope_dim);
  for (std::size_t t = 0; t < q.rows; ++t) {
    const std::size_t visible = first_position + t + 1;
    for (std::size_t h = 0; h < p.heads; ++h) {
      const std::size_t first_row = h * head_rows;
      const std::vector<float> query = absorbed_query(q[t] + h * key_dim, kv_b, first_row, p);
      Attended all;
      all.sum.resize(p.latent_dim);
      for (std::size_t begin = 0; begin < visible; begin += kMlaPiece) {
        const std::size_t count = std::min(kMlaPiece, visible - begin);
        combine(all, attend_piece(query, pieces[begin / kMlaPiece].data(), count, p.latent_dim, scale));
      }
      for (float& value : all.sum) value /= all.total;
      for (std::size_t d = 0; d < p.value_dim; ++d) {
        const std::size_t row = first_row + p.nope_dim + d;
        const float sum = canonical_dot(
            p.latent_dim, [&](std::size_t i) { return matrix_element(kv_b, row, i); },
            [&](std::size_t i) { return matrix_scale(kv_b, row, i); },
            [&](std::size_t i) { return all.sum[i]; });
        y[t][h * p.value_dim + d] = stored(sum * kv_b.global_scale);
      }
    }
  }
}

}  // namespace perigee
