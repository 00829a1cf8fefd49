// Which token two neighbouring tokens make. Most look-ups are for pairs that make none, so a small filter
// that stays in the cache answers those, and only the others touch the table.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "text/token_bytes.h"

namespace perigee {

class PairTable {
 public:
  // For at most `pairs` pairs.
  explicit PairTable(std::size_t pairs)
      : slots_(std::bit_ceil(pairs + pairs / 4 + 2)),
        filter_(std::bit_ceil(kFilterBits * pairs + 64) / 64),
        shift_(64 - std::countr_zero(slots_.size())),
        filter_shift_(64 - std::countr_zero(filter_.size()) - 6) {}

  // The token that left and right make, whose rank is its id; kNoToken if none.
  TokenId find(TokenId left, TokenId right) const {
    const std::uint64_t hash = hash_of(left, right);
    const std::uint64_t bit = hash >> filter_shift_;
    if ((filter_[bit / 64] >> (bit % 64) & 1) == 0) return kNoToken;
    return slots_[slot_of(left, right, hash)].token;
  }

  void add(TokenId left, TokenId right, TokenId token) {
    const std::uint64_t hash = hash_of(left, right);
    const std::uint64_t bit = hash >> filter_shift_;
    filter_[bit / 64] |= std::uint64_t{1} << (bit % 64);
    slots_[slot_of(left, right, hash)] = {left, right, token};
  }

 private:
  struct Slot {
    TokenId left = kNoToken;
    TokenId right = kNoToken;
    TokenId token = kNoToken;
  };

  static constexpr std::size_t kFilterBits = 16;  // per pair

  static std::uint64_t hash_of(TokenId left, TokenId right) {
    return (static_cast<std::uint64_t>(left) << 32 | right) * 0x9E3779B97F4A7C15;
  }

  std::size_t slot_of(TokenId left, TokenId right, std::uint64_t hash) const {
    std::size_t slot = hash >> shift_;
    while (slots_[slot].token != kNoToken && (slots_[slot].left != left || slots_[slot].right != right))
      slot = (slot + 1) & (slots_.size() - 1);
    return slot;
  }

  std::vector<Slot> slots_;            // a power of two, at most four fifths of them taken
  std::vector<std::uint64_t> filter_;  // a bit per hash value, set if some pair has it
  int shift_, filter_shift_;
};

}  // namespace perigee
