// Finds stop strings in text that arrives in pieces, and holds back only what could still be the beginning of
// one. Aho-Corasick over bytes: linear in the text, whatever the strings are. Knows nothing of channels; who
// uses it ends the text where a channel ends.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace perigee {

class StopStrings {
 public:
  // Empty strings and such that are no UTF-8 can never appear as text and are left out.
  explicit StopStrings(std::span<const std::string> strings);

  bool empty() const { return nodes_.size() == 1; }

  // Appends to `out` what is known to be text in front of any match. `text` is valid UTF-8. Ignored after a
  // match.
  void push(std::string_view text, std::string& out);

  // No match spans this point: releases what was held back.
  void end_text(std::string& out);

  // The string whose match starts first; of several that start there the shortest.
  const std::optional<std::string>& matched() const { return matched_; }

 private:
  struct Node {
    std::uint32_t first_child = 0;
    std::uint32_t next_sibling = 0;
    std::uint32_t fail = 0;   // node of the longest proper suffix
    std::uint32_t depth = 0;  // bytes from the root: how much of the text may begin a match
    std::uint32_t match = 0;  // length of the longest string that ends here; 0: none does
    unsigned char byte = 0;
  };
  struct Match {
    std::size_t begin = 0;  // in held_
    std::size_t length = 0;
  };

  std::uint32_t child(std::uint32_t node, unsigned char byte) const;
  std::uint32_t step(std::uint32_t node, unsigned char byte) const;
  void insert(std::string_view string);
  void link();
  void find(std::size_t end);
  void accept(std::string& out);

  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::array<std::uint32_t, 256> from_root_{};
  std::uint32_t node_ = 0;
  std::string held_;
  std::optional<Match> candidate_;  // complete, but one that starts earlier may still become complete
  std::optional<std::string> matched_;
};

}  // namespace perigee
