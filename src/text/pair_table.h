// Which token two neighbouring tokens make: a flat open-addressing table of pairs of ids.
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
      : slots_(std::bit_ceil(2 * pairs + 2)), shift_(64 - std::countr_zero(slots_.size())) {}

  // The token that left and right make, whose rank is its id; kNoToken if none.
  TokenId find(TokenId left, TokenId right) const { return slots_[slot_of(left, right)].token; }

  void add(TokenId left, TokenId right, TokenId token) {
    slots_[slot_of(left, right)] = {left, right, token};
  }

 private:
  struct Slot {
    TokenId left = kNoToken;
    TokenId right = kNoToken;
    TokenId token = kNoToken;
  };

  std::size_t slot_of(TokenId left, TokenId right) const {
    const std::uint64_t key = static_cast<std::uint64_t>(left) << 32 | right;
    std::size_t slot = key * 0x9E3779B97F4A7C15 >> shift_;
    while (slots_[slot].token != kNoToken && (slots_[slot].left != left || slots_[slot].right != right))
      slot = (slot + 1) & (slots_.size() - 1);
    return slot;
  }

  std::vector<Slot> slots_;  // a power of two, less than half of them taken
  int shift_;
};

}  // namespace perigee
