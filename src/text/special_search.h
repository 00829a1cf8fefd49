// Finds the first special token in a text, in time linear in the text however many tokens there are and
// however much of it looks like the beginning of one.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace perigee {

class SpecialSearch {
 public:
  struct Found {
    std::size_t begin;
    std::size_t end;
    TokenId id;
  };

  // The texts must outlive this object.
  explicit SpecialSearch(std::span<const SpecialToken> specials);

  // The leftmost special token in `text`; where several begin, the longest.
  std::optional<Found> find(std::string_view text) const;

 private:
  std::optional<Found> match_at(std::string_view text, std::size_t begin) const;

  std::vector<const SpecialToken*> sorted_;  // by text
  std::array<bool, 256> begins_special_{};   // some text begins with this byte
};

}  // namespace perigee
