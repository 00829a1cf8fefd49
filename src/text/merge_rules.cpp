#include "text/merge_rules.h"

#include "base/error.h"

namespace perigee {
namespace {

// What the trie needs is a multiple of this. The released vocabulary has 1.1 MB.
constexpr std::size_t kMaxTotalBytes = 8 << 20;

}  // namespace

std::optional<MergeRules> MergeRules::find(const TokenBytes& tokens) {
  if (tokens.total_bytes() > kMaxTotalBytes) return std::nullopt;
  MergeRules rules(tokens);
  for (TokenId id = 0; id < tokens.size(); ++id)
    if (tokens[id].size() == 1) rules.made_of_[id] = {id, id};
  for (TokenId id = 0; id < tokens.size(); ++id)
    if (tokens[id].size() > 1 && !rules.find_pair(id)) return std::nullopt;
  return rules;
}

// The pair is what the token's bytes merge into by the rules of lower rank, which are all there: two tokens
// that stay apart.
bool MergeRules::find_pair(TokenId token) {
  const std::string_view bytes = (*tokens_)[token];
  for (TokenId left = trie_.shorter(token); left != kNoToken; left = trie_.shorter(left)) {
    if (!comes_before(left, token)) continue;
    const TokenId right = tokens_->find(bytes.substr((*tokens_)[left].size()));
    if (right == kNoToken || !comes_before(right, token) || !stay_apart(left, right)) continue;
    made_of_[token] = {left, right};
    pairs_.add(left, right, token);
    return true;
  }
  return false;
}

// Undoes the merges at the boundary, the latest first, and asks each time whether the two tokens that touch
// there would have merged with each other before. `limit`: only a merge of lower rank would have.
bool MergeRules::stay_apart(TokenId left, TokenId right) const {
  TokenId limit = kNoToken;
  TokenId left_part = made_of_[left].right, right_part = made_of_[right].left;
  while (!(pairs_.find(left, right) < limit)) {
    const bool undo_left = right_part == right || (left > right && left_part != left);
    if (undo_left) {
      if (left_part == left) return true;
      limit = left;
      left = left_part;
      left_part = made_of_[left].right;
    } else {
      // On a tie the leftmost pair merges first: the one across the boundary lies left of those inside
      // `right`.
      limit = right + 1;
      right = right_part;
      right_part = made_of_[right].left;
    }
  }
  return false;
}

void PieceCutter::append(std::string_view piece, std::vector<TokenId>& ids) {
  const TokenBytes& tokens = rules_.tokens();
  const PrefixTrie& trie = rules_.trie();
  const std::size_t first = ids.size();
  std::size_t at = 0;
  TokenId token = trie.longest(piece);
  if (tokens[token].size() == piece.size()) return ids.push_back(token);
  open_.assign(piece.size() / 64 + 1, ~std::uint64_t{0});
  while (true) {
    const std::size_t end = at + tokens[token].size();
    if (is_open(end) && (ids.size() == first || rules_.stay_apart(ids.back(), token))) {
      ids.push_back(token);
      if (end == piece.size()) return;
      at = end;
      token = trie.longest(piece.substr(at));
      continue;
    }
    token = trie.shorter(token);
    while (token == kNoToken) {  // nothing may follow the last token here: it must be a shorter one
      if (ids.size() == first) fail(ErrorCode::kInternal, "a piece of {} bytes has no tokens", piece.size());
      open_[at / 64] &= ~(std::uint64_t{1} << (at % 64));
      at -= tokens[ids.back()].size();
      token = trie.shorter(ids.back());
      ids.pop_back();
    }
  }
}

}  // namespace perigee
