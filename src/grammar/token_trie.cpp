#include "grammar/token_trie.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string_view>

#include "base/error.h"

namespace perigee {
namespace {

std::size_t shared_bytes(std::string_view a, std::string_view b) {
  const auto [mine, theirs] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<std::size_t>(mine - a.begin());
}

}  // namespace

TokenTrie::TokenTrie(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {
  if (vocabulary.longest_token() > std::numeric_limits<std::uint16_t>::max()) {
    fail(ErrorCode::kUnsupported,
         "a token of the vocabulary has {} bytes, but {} is the most that replies can "
         "be constrained with",
         vocabulary.longest_token(), std::numeric_limits<std::uint16_t>::max());
  }
  std::vector<TokenId> sorted(vocabulary.ordinary_count());
  std::iota(sorted.begin(), sorted.end(), TokenId{0});
  std::ranges::sort(sorted, {}, [&](TokenId id) { return vocabulary.bytes(id); });
  std::vector<std::uint32_t> path = {0};  // the nodes down to the latest token
  std::string_view latest;
  nodes_.emplace_back();
  const auto leave = [&](std::size_t depth) {
    for (; path.size() > depth + 1; path.pop_back())
      nodes_[path.back()].end = static_cast<std::uint32_t>(nodes_.size());
  };
  for (const TokenId id : sorted) {
    const std::string_view bytes = vocabulary.bytes(id);
    leave(shared_bytes(latest, bytes));
    for (std::size_t depth = path.size(); depth <= bytes.size(); ++depth) {
      path.push_back(static_cast<std::uint32_t>(nodes_.size()));
      nodes_.push_back({.end = 0,
                        .token = kNoToken,
                        .depth = static_cast<std::uint16_t>(depth),
                        .byte = static_cast<std::uint8_t>(bytes[depth - 1])});
    }
    nodes_[path.back()].token = id;
    depth_ = std::max(depth_, bytes.size());
    latest = bytes;
  }
  leave(0);
  nodes_[0].end = static_cast<std::uint32_t>(nodes_.size());
}

}  // namespace perigee
