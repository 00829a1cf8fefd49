#include "serve/thinking_budget.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "text/chat_tokens.h"
#include "text/utf8.h"

namespace perigee {
namespace {

// <|close|>think<|sep|><|open|>response<|sep|>
std::vector<TokenId> way_out(const Tokenizer& tokenizer) {
  const ChatTokens tokens = find_chat_tokens(tokenizer.vocabulary());
  std::vector<TokenId> ids;
  for (const auto& [marker, tag] : {std::pair{tokens.close, "think"}, {tokens.open, "response"}}) {
    ids.push_back(marker);
    const std::vector<TokenId> word = tokenizer.encode_plain(tag);
    ids.insert(ids.end(), word.begin(), word.end());
    ids.push_back(tokens.sep);
  }
  return ids;
}

class ThoughtLimit {
 public:
  ThoughtLimit(TokenFilter inner, std::size_t budget, const Tokenizer& tokenizer)
      : inner_(std::move(inner)),
        budget_(budget),
        vocabulary_(tokenizer.vocabulary()),
        way_out_(way_out(tokenizer)) {}

  void filter(std::span<const std::uint32_t> generated, std::span<std::uint64_t> allowed) {
    if (inner_) {
      inner_(generated, allowed);
    } else {
      std::fill(allowed.begin(), allowed.end(), ~std::uint64_t{0});
    }
    for (; seen_ < generated.size(); ++seen_) see(generated[seen_]);
    const bool due = seen_ >= budget_ && characters_.held_bytes() == 0;
    if (!over_ && (out_ > 0 || due)) allow_only(way_out_[out_], allowed);
  }

 private:
  void see(TokenId id) {
    if (over_) return;
    if (out_ > 0 || (id == way_out_[0] && seen_ >= budget_)) {
      over_ = id != way_out_[out_] || ++out_ == way_out_.size();
      return;
    }
    if (vocabulary_.is_special(id)) {  // the thought has ended by itself
      over_ = true;
      return;
    }
    std::string characters;
    characters_.push(vocabulary_.bytes(id), characters);
  }

  static void allow_only(TokenId id, std::span<std::uint64_t> allowed) {
    const std::uint64_t bit = std::uint64_t{1} << (id % 64);
    if ((allowed[id / 64] & bit) == 0) return;
    std::fill(allowed.begin(), allowed.end(), 0);
    allowed[id / 64] = bit;
  }

  const TokenFilter inner_;
  const std::size_t budget_;
  const Vocabulary& vocabulary_;
  const std::vector<TokenId> way_out_;
  Utf8Stream characters_;
  std::size_t seen_ = 0;
  std::size_t out_ = 0;  // ids of the way out that have been generated
  bool over_ = false;
};

}  // namespace

TokenFilter with_thinking_budget(TokenFilter inner, std::size_t budget, const Tokenizer& tokenizer) {
  const auto limit = std::make_shared<ThoughtLimit>(std::move(inner), budget, tokenizer);
  return [limit](std::span<const std::uint32_t> generated, std::span<std::uint64_t> allowed) {
    limit->filter(generated, allowed);
  };
}

}  // namespace perigee
