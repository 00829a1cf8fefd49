#include "text/bpe.h"

#include <algorithm>
#include <numeric>

namespace perigee {

MergeTable::MergeTable(const TokenBytes& tokens) : pairs_(tokens.size()) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    byte_tokens_[byte] = tokens.find({&text, 1});
  }
  // A token merges from shorter ones, so all that its own merging needs is there when its turn comes.
  std::vector<TokenId> by_length(tokens.size());
  std::iota(by_length.begin(), by_length.end(), 0U);
  std::ranges::stable_sort(by_length, {}, [&](TokenId id) { return tokens[id].size(); });
  Merger merger(*this);
  for (const TokenId id : by_length) {
    const std::vector<TokenId>& parts = merger.merge(tokens[id]);
    if (parts.size() == 2) pairs_.add(parts[0], parts[1], id);
  }
}

const std::vector<TokenId>& Merger::merge(std::string_view piece) {
  const auto count = static_cast<std::uint32_t>(piece.size());
  parts_.resize(count);
  next_.resize(count);
  previous_.resize(count);
  std::ranges::transform(piece, parts_.begin(), [this](char byte) { return table_.byte_token(byte); });
  std::iota(next_.begin(), next_.end(), 1U);
  std::iota(previous_.begin(), previous_.end(), ~0U);
  heap_.clear();
  for (std::uint32_t i = 0; i + 1 < count; ++i) push_candidate(i, i + 1);
  while (!heap_.empty()) {
    std::ranges::pop_heap(heap_, later);
    const Candidate lowest = heap_.back();
    heap_.pop_back();
    apply(lowest);
  }
  std::erase(parts_, kNoToken);
  return parts_;
}

void Merger::push_candidate(std::uint32_t left, std::uint32_t right) {
  const TokenId rank = table_.merged(parts_[left], parts_[right]);
  if (rank == kNoToken) return;
  heap_.push_back({rank, left, parts_[left], parts_[right]});
  std::ranges::push_heap(heap_, later);
}

void Merger::apply(const Candidate& candidate) {
  const auto [rank, left, left_id, right_id] = candidate;
  const auto end = static_cast<std::uint32_t>(parts_.size());
  const std::uint32_t right = next_[left];
  if (parts_[left] != left_id || right == end || parts_[right] != right_id) return;
  parts_[left] = rank;
  parts_[right] = kNoToken;
  next_[left] = next_[right];
  if (next_[left] != end) {
    previous_[next_[left]] = left;
    push_candidate(left, next_[left]);
  }
  if (left > 0) push_candidate(previous_[left], left);
}

}  // namespace perigee
