#include "text/merge_rules.h"

#include "base/error.h"

namespace perigee {

std::optional<MergeRules> MergeRules::find(const TokenBytes& tokens) {
  if (tokens.total_bytes() > PrefixTrie::kMaxTotalBytes) return std::nullopt;
  std::vector<TokenId> shorter;
  PrefixTrie trie(tokens, shorter);
  MergeRules rules(std::move(trie), tokens.size());
  for (TokenId id = 0; id < tokens.size(); ++id)
    rules.known_[id] = {id, id, shorter[id], static_cast<std::uint32_t>(tokens[id].size())};
  for (TokenId id = 0; id < tokens.size(); ++id)
    if (rules.length(id) > 1 && !rules.find_pair(tokens, id)) return std::nullopt;
  return rules;
}

// The pair is what the token's bytes merge into by the rules of lower rank, which are all there: two tokens
// that stay apart.
bool MergeRules::find_pair(const TokenBytes& tokens, TokenId token) {
  const std::string_view bytes = tokens[token];
  for (TokenId left = shorter(token); left != kNoToken; left = shorter(left)) {
    if (!comes_before(left, token)) continue;
    const TokenId right = tokens.find(bytes.substr(length(left)));
    if (right == kNoToken || !comes_before(right, token) || !stay_apart(left, right)) continue;
    known_[token].left = left;
    known_[token].right = right;
    pairs_.add(left, right, token);
    return true;
  }
  return false;
}

// Undoes the merges at the boundary, the latest first, and asks each time whether the two tokens that touch
// there would have merged with each other before. `limit`: only a merge of lower rank would have.
bool MergeRules::stay_apart(TokenId left, TokenId right) const {
  TokenId limit = kNoToken;
  Known of_left = known_[left], of_right = known_[right];
  while (!(pairs_.find(left, right) < limit)) {
    const bool undo_left = of_right.left == right || (left > right && of_left.right != left);
    if (undo_left && of_left.right == left) return true;
    // On a tie the leftmost pair merges first: the one across the boundary lies left of those inside
    // `right`.
    limit = undo_left ? left : right + 1;
    const TokenId part = undo_left ? of_left.right : of_right.left;
    (undo_left ? left : right) = part;
    (undo_left ? of_left : of_right) = known_[part];
  }
  return false;
}

bool PieceCutter::stay_apart(TokenId left, TokenId right) {
  if (memo_.empty()) return rules_.stay_apart(left, right);
  // Ids are below 2^23 (PrefixTrie::kMaxTotalBytes), so that neighbours and the answer fit.
  const std::uint64_t neighbours = (std::uint64_t{left} << 32 | right) << 1;
  std::uint64_t& slot = memo_[neighbours * 0x9E3779B97F4A7C15 >> (64 - kMemoBits)];
  if ((slot ^ neighbours) > 1) slot = neighbours | static_cast<std::uint64_t>(rules_.stay_apart(left, right));
  return (slot & 1) != 0;
}

void PieceCutter::append(std::string_view piece, std::vector<TokenId>& ids) {
  const std::size_t first = ids.size();
  std::size_t at = 0;
  TokenId token = rules_.longest(piece);
  if (rules_.length(token) == piece.size()) return ids.push_back(token);
  open_.assign(piece.size() / 64 + 1, ~std::uint64_t{0});
  while (true) {
    const std::size_t end = at + rules_.length(token);
    if (is_open(end) && (ids.size() == first || stay_apart(ids.back(), token))) {
      ids.push_back(token);
      if (end == piece.size()) return;
      at = end;
      token = rules_.longest(piece.substr(at));
      continue;
    }
    token = rules_.shorter(token);
    while (token == kNoToken) {  // nothing may follow the last token here: it must be a shorter one
      if (ids.size() == first) fail(ErrorCode::kInternal, "a piece of {} bytes has no tokens", piece.size());
      open_[at / 64] &= ~(std::uint64_t{1} << (at % 64));
      at -= rules_.length(ids.back());
      token = rules_.shorter(ids.back());
      ids.pop_back();
    }
  }
}

}  // namespace perigee
