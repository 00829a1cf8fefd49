#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace perigee {
namespace {

// Up to here scanning for the lowest rank beats a heap.
constexpr std::size_t kShortPiece = 100;

}  // namespace

MergeTable::MergeTable(const TokenBytes& tokens) : slots_(std::bit_ceil(2 * tokens.size() + 1)) {
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
    if (parts.size() == 2) add(parts[0], parts[1], id);
  }
}

void MergeTable::add(TokenId left, TokenId right, TokenId token) {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = hash(left, right) & mask;
  while (slots_[slot].token != kNoToken) slot = (slot + 1) & mask;
  slots_[slot] = {left, right, token};
}

const std::vector<TokenId>& Merger::merge(std::string_view piece) {
  parts_.resize(piece.size());
  std::ranges::transform(piece, parts_.begin(),
                         [this](char byte) { return table_.byte_token(static_cast<unsigned char>(byte)); });
  if (parts_.size() <= kShortPiece) {
    merge_short();
  } else {
    merge_long();
  }
  return parts_;
}

void Merger::merge_short() {
  std::size_t pairs = parts_.empty() ? 0 : parts_.size() - 1;
  ranks_.resize(pairs);
  for (std::size_t i = 0; i < pairs; ++i) ranks_[i] = table_.merged(parts_[i], parts_[i + 1]);
  while (pairs > 0) {
    const auto lowest = static_cast<std::size_t>(std::ranges::min_element(ranks_) - ranks_.begin());
    if (ranks_[lowest] == kNoToken) return;
    parts_[lowest] = ranks_[lowest];
    parts_.erase(parts_.begin() + static_cast<std::ptrdiff_t>(lowest) + 1);
    ranks_.erase(ranks_.begin() + static_cast<std::ptrdiff_t>(lowest));
    --pairs;
    if (lowest < pairs) ranks_[lowest] = table_.merged(parts_[lowest], parts_[lowest + 1]);
    if (lowest > 0) ranks_[lowest - 1] = table_.merged(parts_[lowest - 1], parts_[lowest]);
  }
}

void Merger::push_candidate(std::uint32_t left, std::uint32_t right) {
  const TokenId rank = table_.merged(parts_[left], parts_[right]);
  if (rank == kNoToken) return;
  heap_.push_back({rank, left, parts_[left], parts_[right]});
  std::ranges::push_heap(heap_, later);
}

void Merger::merge_long() {
  const auto count = static_cast<std::uint32_t>(parts_.size());
  next_.resize(count);
  previous_.resize(count);
  std::iota(next_.begin(), next_.end(), 1U);
  std::iota(previous_.begin(), previous_.end(), ~0U);
  heap_.clear();
  for (std::uint32_t i = 0; i + 1 < count; ++i) push_candidate(i, i + 1);
  while (!heap_.empty()) {
    std::ranges::pop_heap(heap_, later);
    const Candidate best = heap_.back();
    heap_.pop_back();
    if (parts_[best.left] != best.left_id || next_[best.left] == count) continue;
    const std::uint32_t right = next_[best.left];
    if (parts_[right] != best.right_id) continue;
    parts_[best.left] = best.rank;
    parts_[right] = kNoToken;
    next_[best.left] = next_[right];
    if (next_[right] != count) {
      previous_[next_[right]] = best.left;
      push_candidate(best.left, next_[right]);
    }
    if (best.left > 0) push_candidate(previous_[best.left], best.left);
  }
  std::erase(parts_, kNoToken);
}

}  // namespace perigee
