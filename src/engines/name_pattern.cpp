// Thompson's construction, run as a deterministic automaton whose states are made when first needed.
#include "engines/name_pattern.h"

#include <string>

namespace perigee {
namespace {

// States kept before they are forgotten and made anew; bounds memory to about 150 KB a pattern.
constexpr std::size_t kMaxStates = 128;
constexpr int kMaxGroupDepth = 32;

using ByteSet = std::bitset<256>;

ByteSet byte_range(unsigned char low, unsigned char high) {
  ByteSet set;
  for (int byte = low; byte <= high; ++byte) set.set(static_cast<std::size_t>(byte));
  return set;
}

ByteSet one_byte(char byte) {
  return byte_range(static_cast<unsigned char>(byte), static_cast<unsigned char>(byte));
}

ByteSet any_byte() {
  return ~one_byte('\n');
}

bool is_letter_or_digit(char byte) {
  return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

// The meaning of a backslash and the character after it; nothing for those that are not sets (\b, \1, \A …).
std::optional<ByteSet> escaped(char letter) {
  const ByteSet digits = byte_range('0', '9');
  const ByteSet words = digits | byte_range('a', 'z') | byte_range('A', 'Z') | one_byte('_');
  const ByteSet spaces = byte_range('\t', '\r') | one_byte(' ');
  switch (letter) {
    case 'd':
      return digits;
    case 'D':
      return ~digits;
    case 'w':
      return words;
    case 'W':
      return ~words;
    case 's':
      return spaces;
    case 'S':
      return ~spaces;
    default:
      break;
  }
  if (is_letter_or_digit(letter)) return std::nullopt;
  return one_byte(letter);
}

}  // namespace

// Recursive descent over the pattern; every part becomes a fragment with one entry and one open end. Any
// parse function sets failed_ on what it does not understand, and the result is then thrown away.
class PatternCompiler {
 public:
  explicit PatternCompiler(std::string_view text) : text_(text) {}

  std::optional<NamePattern> compile(bool as_glob) {
    if (text_.size() > NamePattern::kMaxLength) return std::nullopt;
    const Fragment whole = as_glob ? glob_items() : alternatives(0);
    if (failed_ || position_ != text_.size()) return std::nullopt;
    pattern_.start_ = whole.entry;
    pattern_.nodes_[index(whole.exit)].kind = Kind::kAccept;
    return std::move(pattern_);
  }

 private:
  using Kind = NamePattern::Kind;

  // `exit` is a node whose `next` is still open.
  struct Fragment {
    int entry;
    int exit;
  };

  static std::size_t index(int node) { return static_cast<std::size_t>(node); }

  int add(Kind kind) {
    pattern_.nodes_.push_back({kind, {}, -1, -1});
    return static_cast<int>(pattern_.nodes_.size()) - 1;
  }
  void link(int from, int to) { pattern_.nodes_[index(from)].next = to; }

  // A node that does nothing: a split with one way out.
  int joint() { return add(Kind::kSplit); }

  Fragment consume(const ByteSet& bytes) {
    const int node = add(Kind::kSet);
    pattern_.nodes_[index(node)].bytes = bytes;
    const int exit = joint();
    link(node, exit);
    return {node, exit};
  }

  Fragment assertion(Kind kind) {
    const int node = add(kind);
    const int exit = joint();
    link(node, exit);
    return {node, exit};
  }

  Fragment empty() {
    const int node = joint();
    return {node, node};
  }

  Fragment chain(Fragment first, Fragment second) {
    link(first.exit, second.entry);
    return {first.entry, second.exit};
  }

  Fragment repeat(Fragment part, bool may_skip, bool may_repeat) {
    const int fork = add(Kind::kSplit);
    const int exit = joint();
    link(fork, part.entry);
    pattern_.nodes_[index(fork)].other = exit;
    link(part.exit, may_repeat ? fork : exit);
    return {may_skip ? fork : part.entry, exit};
  }

  bool at_end() const { return position_ >= text_.size(); }
  char peek() const { return text_[position_]; }
  bool take(char byte) {
    if (at_end() || peek() != byte) return false;
    ++position_;
    return true;
  }

  Fragment refuse() {
    failed_ = true;
    return empty();
  }

  Fragment alternatives(int depth) {
    if (depth > kMaxGroupDepth) return refuse();
    Fragment all = sequence(depth);
    while (!failed_ && take('|')) {
      const Fragment more = sequence(depth);
      const int fork = add(Kind::kSplit);
      const int exit = joint();
      link(fork, all.entry);
      pattern_.nodes_[index(fork)].other = more.entry;
      link(all.exit, exit);
      link(more.exit, exit);
      all = {fork, exit};
    }
    return all;
  }

  Fragment sequence(int depth) {
    Fragment all = empty();
    while (!failed_ && !at_end() && peek() != '|' && peek() != ')') all = chain(all, repeated_item(depth));
    return all;
  }

  Fragment repeated_item(int depth) {
    const bool is_anchor = peek() == '^' || peek() == '$';
    const Fragment item = single_item(depth);
    if (failed_ || at_end()) return item;
    const char sign = peek();
    if (sign == '{') return refuse();
    if (sign != '*' && sign != '+' && sign != '?') return item;
    if (is_anchor) return refuse();  // Python: nothing to repeat
    ++position_;
    take('?');  // lazy: another preference, the same set of names
    if (!at_end() && (peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{')) return refuse();
    return repeat(item, sign != '+', sign != '?');
  }

  Fragment single_item(int depth) {
    const char byte = text_[position_++];
    switch (byte) {
      case '.':
        return consume(any_byte());
      case '^':
        return assertion(Kind::kStart);
      case '$':
        return assertion(Kind::kEnd);
      case '(':
        return group(depth);
      case '[':
        return bracket('^', true);
      case '\\':
        return escape();
      case '*':
      case '+':
      case '?':
      case '{':
        return refuse();
      default:
        return consume(one_byte(byte));
    }
  }

  Fragment group(int depth) {
    if (take('?') && !take(':')) return refuse();
    const Fragment inside = alternatives(depth + 1);
    if (!take(')')) return refuse();
    return inside;
  }

  Fragment escape() {
    if (at_end()) return refuse();
    const auto set = escaped(text_[position_++]);
    return set ? consume(*set) : refuse();
  }

  // After "[". fnmatch writes negation as "!" and knows no escapes.
  Fragment bracket(char negation, bool with_escapes) {
    const bool negated = take(negation);
    ByteSet set;
    for (bool first = true; !failed_; first = false) {
      if (at_end()) return refuse();
      if (!first && take(']')) break;
      set |= bracket_item(with_escapes);
    }
    return consume(negated ? ~set : set);
  }

  ByteSet bracket_item(bool with_escapes) {
    const char low = text_[position_++];
    if (low == '\\' && with_escapes) {
      const auto set = at_end() ? std::nullopt : escaped(text_[position_++]);
      if (!set) failed_ = true;
      return set.value_or(ByteSet());
    }
    const bool is_range = position_ + 1 < text_.size() && peek() == '-' && text_[position_ + 1] != ']';
    if (!is_range) return one_byte(low);
    const char high = text_[position_ + 1];
    position_ += 2;
    if ((high == '\\' && with_escapes) ||
        static_cast<unsigned char>(high) < static_cast<unsigned char>(low)) {
      failed_ = true;
      return {};
    }
    return byte_range(static_cast<unsigned char>(low), static_cast<unsigned char>(high));
  }

  Fragment glob_items() {
    Fragment all = empty();
    while (!failed_ && !at_end()) {
      const char byte = text_[position_++];
      if (byte == '*') {
        all = chain(all, repeat(consume(ByteSet().set()), true, true));
      } else if (byte == '?') {
        all = chain(all, consume(ByteSet().set()));
      } else if (byte == '[' && text_.find(']', position_ + 1) != std::string_view::npos) {
        all = chain(all, bracket('!', false));
      } else {
        all = chain(all, consume(one_byte(byte)));
      }
    }
    return all;
  }

  std::string_view text_;
  std::size_t position_ = 0;
  bool failed_ = false;
  NamePattern pattern_;
};

std::optional<NamePattern> NamePattern::glob(std::string_view text) {
  return PatternCompiler(text).compile(true);
}

std::optional<NamePattern> NamePattern::regex(std::string_view text) {
  return PatternCompiler(text).compile(false);
}

void NamePattern::close_over(int from, bool at_start, bool at_end, std::vector<bool>& seen) const {
  std::vector<int> pending = {from};
  while (!pending.empty()) {
    const int current = pending.back();
    pending.pop_back();
    if (current < 0 || seen[static_cast<std::size_t>(current)]) continue;
    seen[static_cast<std::size_t>(current)] = true;
    const Node& node = nodes_[static_cast<std::size_t>(current)];
    const bool passes = node.kind == Kind::kSplit || (node.kind == Kind::kStart && at_start) ||
                        (node.kind == Kind::kEnd && at_end);
    if (!passes) continue;
    pending.push_back(node.next);
    pending.push_back(node.other);
  }
}

int NamePattern::state_of(const NodeSet& kernel, bool at_start) {
  if (!at_start) {
    if (const auto found = known_.find(kernel); found != known_.end()) return found->second;
  }
  State state;
  state.next.fill(-1);
  for (const bool at_end : {false, true}) {
    std::vector<bool> seen(nodes_.size(), false);
    for (const int node : kernel) close_over(node, at_start, at_end, seen);
    for (std::size_t node = 0; node < seen.size(); ++node) {
      if (!seen[node]) continue;
      if (nodes_[node].kind == Kind::kAccept) (at_end ? state.accepts_at_end : state.accepts) = true;
      if (nodes_[node].kind == Kind::kSet && !at_end) state.nodes.push_back(static_cast<int>(node));
    }
  }
  states_.push_back(std::move(state));
  const int id = static_cast<int>(states_.size()) - 1;
  if (!at_start) known_.emplace(kernel, id);
  return id;
}

int NamePattern::step(int state, unsigned char byte) {
  const int known = states_[static_cast<std::size_t>(state)].next[byte];
  if (known >= 0) return known;
  NodeSet kernel;
  for (const int node : states_[static_cast<std::size_t>(state)].nodes) {
    const Node& from = nodes_[static_cast<std::size_t>(node)];
    if (from.bytes[byte]) kernel.push_back(from.next);
  }
  if (states_.size() >= kMaxStates) {
    forget_states();
    return state_of(kernel, false);
  }
  const int next = state_of(kernel, false);
  states_[static_cast<std::size_t>(state)].next[byte] = next;
  return next;
}

void NamePattern::forget_states() {
  states_.clear();
  known_.clear();
  first_state_ = -1;
}

bool NamePattern::matches_whole(std::string_view name) {
  if (first_state_ < 0) first_state_ = state_of({start_}, true);
  int state = first_state_;
  for (const char byte : name) state = step(state, static_cast<unsigned char>(byte));
  return states_[static_cast<std::size_t>(state)].accepts_at_end;
}

bool NamePattern::matches_start(std::string_view name) {
  if (first_state_ < 0) first_state_ = state_of({start_}, true);
  int state = first_state_;
  for (const char byte : name) {
    if (states_[static_cast<std::size_t>(state)].accepts) return true;
    state = step(state, static_cast<unsigned char>(byte));
  }
  return states_[static_cast<std::size_t>(state)].accepts_at_end;
}

}  // namespace perigee
