// KDA and MLA: how the work is cut over heads and tokens, and MLA put together from the kernels.
#include <algorithm>
#include <cmath>
#include <vector>

#include "compute/cpu/cpu_ops.h"
#include "compute/cpu/packed_rows.h"
#include "numerics/elementary.h"

namespace perigee {
namespace {

constexpr std::size_t kQueries = 48;  // heads x tokens that go through the cache together

// Some heads of some tokens of one sequence; query t * heads + h.
struct QueryBlock {
  std::size_t first_head = 0, heads = 0;
  std::size_t first_token = 0, tokens = 0;
  std::size_t size() const { return heads * tokens; }
};

class MlaBlock {
 public:
  MlaBlock(const CpuKernels& kernels, ThreadPool& pool, const MlaParameters& p, const Matrix& kv_b,
           const QueryBlock& block)
      : kernels_(kernels),
        pool_(pool),
        p_(p),
        kv_b_(kv_b),
        block_(block),
        query_(block.size(), p.latent_dim + p.rope_dim),
        scores_(block.size(), kMlaPiece),
        piece_sum_(block.size(), p.latent_dim),
        sum_(block.size(), p.latent_dim),
        largest_(block.size(), -INFINITY),
        total_(block.size()) {}

  void absorb(ConstRows q);
  void attend(const MlaCacheView& cache, std::size_t first_position);
  void write(bool round, Rows y);

 private:
  void attend_piece(const PackedRows& queries, const Matrix& piece, std::size_t begin,
                    std::size_t first_position);
  void add_piece(std::size_t query, float largest, float total);

  const CpuKernels& kernels_;
  ThreadPool& pool_;
  const MlaParameters& p_;
  const Matrix& kv_b_;
  const QueryBlock block_;
  Tensor query_;      // [queries, latent + rope]
  Tensor scores_;     // [queries, kMlaPiece]
  Tensor piece_sum_;  // [queries, latent]
  Tensor sum_;        // [queries, latent]
  std::vector<float> largest_, total_;
};

// The heads' queries as they meet a cache row: the nope part taken through the key half of kv_b, then the
// rope part.
void MlaBlock::absorb(ConstRows q) {
  const std::size_t key_dim = p_.nope_dim + p_.rope_dim;
  std::vector<float> row(p_.latent_dim);
  for (std::size_t h = 0; h < block_.heads; ++h) {
    const std::size_t head = block_.first_head + h;
    for (std::size_t d = 0; d < p_.nope_dim; ++d) {
      kernels_.decode_row(kv_b_, head * (p_.nope_dim + p_.value_dim) + d, row.data());
      for (std::size_t t = 0; t < block_.tokens; ++t) {
        kernels_.add_scaled(q[block_.first_token + t][head * key_dim + d], row.data(), p_.latent_dim,
                            query_[t * block_.heads + h]);
      }
    }
    for (std::size_t t = 0; t < block_.tokens; ++t) {
      std::copy_n(q[block_.first_token + t] + head * key_dim + p_.nope_dim, p_.rope_dim,
                  query_[t * block_.heads + h] + p_.latent_dim);
    }
  }
}

void MlaBlock::attend(const MlaCacheView& cache, std::size_t first_position) {
  const PackedRows queries(kernels_, cache.format, query_, block_.size(), false, pool_);
  const std::size_t visible = first_position + block_.first_token + block_.tokens;  // to the last token
  for (std::size_t begin = 0; begin < visible; begin += kMlaPiece) {
    const Matrix piece{.format = cache.format,
                       .rows = std::min(kMlaPiece, visible - begin),
                       .columns = query_.width(),
                       .values = cache.pieces[begin / kMlaPiece]};
    attend_piece(queries, piece, begin, first_position);
  }
  for (std::size_t i = 0; i < block_.size(); ++i) kernels_.divide(total_[i], p_.latent_dim, sum_[i]);
}

void MlaBlock::attend_piece(const PackedRows& queries, const Matrix& piece, std::size_t begin,
                            std::size_t first_position) {
  std::vector<std::size_t> seen(block_.size());  // positions of the piece
  for (std::size_t i = 0; i < block_.size(); ++i) {
    const std::size_t visible = first_position + block_.first_token + i / block_.heads + 1;
    seen[i] = visible <= begin ? 0 : std::min(kMlaPiece, visible - begin);
  }
  const LinearTask task{.matrix = &piece,
                        .packing = queries.packing(),
                        .x = queries.row(0),
                        .shape = queries.shape(),
                        .tokens = block_.size(),
                        .y = scores_[0],
                        .y_stride = kMlaPiece};
  kernels_.linear_rows(task, 0, piece.rows);
  const float scale = 1.0f / std::sqrt(static_cast<float>(p_.nope_dim + p_.rope_dim));
  // Ascending: the first tokens of the block may not see the piece at all.
  const auto first = static_cast<std::size_t>(std::ranges::upper_bound(seen, 0u) - seen.begin());
  std::vector<float> largest(block_.size()), total(block_.size());
  for (std::size_t i = first; i < block_.size(); ++i)
    largest[i] = kernels_.softmax_terms(scores_[i], seen[i], scale, &total[i]);
  const WeightedSumTask sums{&piece,         &seen[first], p_.latent_dim,
                             scores_[first], kMlaPiece,    piece_sum_[first]};
  kernels_.weighted_sum(sums, block_.size() - first);
  for (std::size_t i = first; i < block_.size(); ++i) add_piece(i, largest[i], total[i]);
}

void MlaBlock::add_piece(std::size_t query, float piece_largest, float piece_total) {
  const float largest = std::fmax(largest_[query], piece_largest);
  const float old_factor = exact_exp(largest_[query] - largest);
  const float new_factor = exact_exp(piece_largest - largest);
  largest_[query] = largest;
  total_[query] = std::fma(piece_total, new_factor, total_[query] * old_factor);
  kernels_.combine(piece_sum_[query], p_.latent_dim, old_factor, new_factor, sum_[query]);
}

void MlaBlock::write(bool round, Rows y) {
  const PackedRows sums(kernels_, kv_b_.format, sum_, block_.tokens, false, pool_);
  PackedShape head_shape = sums.shape();
  head_shape.token_stride *= block_.heads;
  for (std::size_t h = 0; h < block_.heads; ++h) {
    const std::size_t head = block_.first_head + h;
    const std::size_t first_row = head * (p_.nope_dim + p_.value_dim) + p_.nope_dim;
    const LinearTask task{.matrix = &kv_b_,
                          .packing = sums.packing(),
                          .x = sums.row(h),
                          .shape = head_shape,
                          .tokens = block_.tokens,
                          .y = y[block_.first_token] + head * p_.value_dim,
                          .y_stride = y.width,
                          .first_row = first_row,
                          .round = round};
    kernels_.linear_rows(task, first_row, first_row + p_.value_dim);
  }
}

// As many heads together as share a pass over the cache and leave equal work for every thread.
std::size_t heads_together(std::size_t heads, std::size_t tokens, unsigned threads) {
  const std::size_t most = std::max<std::size_t>(kQueries / std::max<std::size_t>(tokens, 1), 1);
  const std::size_t each = (heads + threads - 1) / threads;
  const std::size_t passes = (each + most - 1) / most;
  return passes == 0 ? 1 : (each + passes - 1) / passes;
}

}  // namespace

void CpuOps::mla(ConstRows q, const Matrix& kv_b, const MlaCacheView& cache, std::size_t first_position,
                 const MlaParameters& p, Rows y) const {
  if (!has_fast_linear(kv_b)) return ReferenceOps::mla(q, kv_b, cache, first_position, p, y);
  const std::size_t heads = heads_together(p.heads, q.rows, pool_.threads());
  const std::size_t head_blocks = (p.heads + heads - 1) / heads;
  const std::size_t token_blocks = (q.rows + kQueries - 1) / kQueries;
  pool_.parallel_for(head_blocks * token_blocks, 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t item = begin; item < end; ++item) {
      QueryBlock block;
      block.first_head = item / token_blocks * heads;
      block.heads = std::min(heads, p.heads - block.first_head);
      block.first_token = item % token_blocks * kQueries;
      block.tokens = std::min(kQueries, q.rows - block.first_token);
      MlaBlock work(kernels_, pool_, p, kv_b, block);
      work.absorb(q);
      work.attend(cache, first_position);
      work.write(rounds(), y);
    }
  });
}

void CpuOps::kda(ConstRows q, ConstRows k, ConstRows v, ConstRows g, ConstRows b,
                 const KdaParameters& parameters, Rows state, Rows y) const {
  const KdaTask task{q, k, v, g, b, &parameters, state, y, rounds()};
  pool_.parallel_for(parameters.heads, 1, [&](std::size_t begin, std::size_t end) {
    std::vector<float> scratch(3 * parameters.head_dim);
    for (std::size_t head = begin; head < end; ++head) kernels_.kda_head(task, head, scratch.data());
  });
}

}  // namespace perigee
