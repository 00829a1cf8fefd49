// The ids of short pieces met lately in one text: most words of a text come again and again. Small enough to
// stay in the processor's cache; a piece simply replaces what was in its slot.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "text/short_key.h"
#include "text/token_bytes.h"

namespace perigee {

class PieceCache {
 public:
  // Filling the slots costs about as much as encoding this much text.
  static constexpr std::size_t kWorthwhileBytes = 131072;

  PieceCache() : slots_(kSlots) {}

  // The ids of the piece with this key; empty if it is not here.
  std::span<const TokenId> find(const ShortKey& key) const {
    const Slot& slot = slots_[key.hash() % kSlots];
    if (slot.key != key) return {};
    return {slot.ids.data(), slot.count};
  }

  void put(const ShortKey& key, std::span<const TokenId> ids) {
    if (ids.size() > kMaxIds) return;
    Slot& slot = slots_[key.hash() % kSlots];
    slot.key = key;
    slot.count = static_cast<std::uint32_t>(ids.size());
    std::ranges::copy(ids, slot.ids.begin());
  }

 private:
  static constexpr std::size_t kSlots = 16384;
  static constexpr std::size_t kMaxIds = 3;

  struct Slot {
    ShortKey key;  // no piece has the length 0, so an empty slot is found by none
    std::array<TokenId, kMaxIds> ids{};
    std::uint32_t count = 0;
  };

  std::vector<Slot> slots_;
};

}  // namespace perigee
