// Patterns over module names as the serving engines understand them: Python's fnmatch, and the part of
// Python's `re` that quantisation lists use. A list may come from a stranger's checkpoint, so matching takes
// time linear in the name and bounded memory whatever the pattern says; what is not understood is refused,
// never guessed. Deliberately not a general regular-expression library: no captures, no look-around, no
// counted repetition.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace perigee {

class NamePattern {
 public:
  // Longer patterns are not understood.
  static constexpr std::size_t kMaxLength = 512;

  // fnmatch.fnmatchcase: "*", "?", "[seq]", "[!seq]"; every other character stands for itself.
  static std::optional<NamePattern> glob(std::string_view text);
  // Literals, ".", escapes (\d \w \s, their opposites, punctuation), "[…]", groups, "|", "*", "+", "?" and
  // their lazy forms, "^", "$".
  static std::optional<NamePattern> regex(std::string_view text);

  bool matches_whole(std::string_view name);  // re.fullmatch, fnmatch
  bool matches_start(std::string_view name);  // re.match

 private:
  friend class PatternCompiler;

  // A node of the automaton. kSet consumes one byte; kSplit, kStart and kEnd consume nothing.
  enum class Kind : std::uint8_t { kSet, kSplit, kStart, kEnd, kAccept };
  struct Node {
    Kind kind = Kind::kAccept;
    std::bitset<256> bytes;
    int next = -1;
    int other = -1;  // kSplit only
  };
  using NodeSet = std::vector<int>;  // sorted

  // A set of nodes the automaton may be in, with the sets that follow it as far as they were needed.
  struct State {
    NodeSet nodes;
    bool accepts = false;         // the pattern is satisfied here
    bool accepts_at_end = false;  // or would be, if the name ended here
    std::array<int, 256> next;    // -1 = not worked out yet
  };

  void close_over(int node, bool at_start, bool at_end, std::vector<bool>& seen) const;
  int state_of(const NodeSet& kernel, bool at_start);
  int step(int state, unsigned char byte);
  void forget_states();

  std::vector<Node> nodes_;
  int start_ = 0;
  std::vector<State> states_;
  std::map<NodeSet, int> known_;
  int first_state_ = -1;
};

}  // namespace perigee
