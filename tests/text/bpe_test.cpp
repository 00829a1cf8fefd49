// The two implementations of merging against the definition, written down here as plainly as possible, over
// thousands of small vocabularies: learnt ones, as files have, and arbitrary ones.
#include "text/bpe.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

#include "support/tiktoken_text.h"
#include "text/merge_rules.h"

namespace perigee {
namespace {

using Ids = std::vector<TokenId>;
using Ranks = std::map<std::string, TokenId>;

// Merges the neighbours whose joined bytes have the lowest rank, leftmost first, until there are none.
Ids merged_by_definition(const Ranks& ranks, const std::string& piece) {
  std::vector<std::string> parts;
  for (const char byte : piece) parts.emplace_back(1, byte);
  while (true) {
    std::size_t best = parts.size();
    TokenId lowest = kNoToken;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = ranks.find(parts[i] + parts[i + 1]);
      if (found == ranks.end() || found->second >= lowest) continue;
      lowest = found->second;
      best = i;
    }
    if (best == parts.size()) break;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  Ids ids;
  for (const std::string& part : parts) ids.push_back(ranks.at(part));
  return ids;
}

struct SmallVocabulary {
  TokenBytes tokens;
  Ranks ranks;

  bool add(const std::string& bytes) {
    if (!tokens.add(bytes)) return false;
    ranks[bytes] = static_cast<TokenId>(tokens.size() - 1);
    return true;
  }
};

class Dice {
 public:
  explicit Dice(unsigned seed) : engine_(seed) {}
  std::size_t below(std::size_t limit) { return engine_() % limit; }
  std::string letters(std::size_t length, std::size_t alphabet) {
    std::string text;
    for (std::size_t i = 0; i < length; ++i) text += kLetters[below(alphabet)];
    return text;
  }

 private:
  // Up to four; all but one differ in their two highest bits only, which the trie has to tell apart.
  static constexpr std::string_view kLetters = "p0a\xB0";
  std::mt19937 engine_;
};

// The single bytes, in any order.
SmallVocabulary single_bytes(Dice& dice) {
  std::vector<std::string> bytes = test::with_single_bytes({});
  for (std::size_t i = bytes.size(); i > 1; --i) std::swap(bytes[i - 1], bytes[dice.below(i)]);
  SmallVocabulary vocabulary;
  for (const std::string& byte : bytes) vocabulary.add(byte);
  return vocabulary;
}

// As training makes it: each token joins two neighbours of some text merged so far.
SmallVocabulary learnt_vocabulary(Dice& dice, std::size_t alphabet) {
  SmallVocabulary vocabulary = single_bytes(dice);
  for (std::size_t i = 0; i < 40; ++i) {
    const Ids ids = merged_by_definition(vocabulary.ranks, dice.letters(12, alphabet));
    if (ids.size() < 2) continue;
    const std::size_t at = dice.below(ids.size() - 1);
    vocabulary.add(std::string(vocabulary.tokens[ids[at]]) + std::string(vocabulary.tokens[ids[at + 1]]));
  }
  return vocabulary;
}

SmallVocabulary arbitrary_vocabulary(Dice& dice, std::size_t alphabet) {
  SmallVocabulary vocabulary = single_bytes(dice);
  for (std::size_t i = 0; i < 25; ++i) vocabulary.add(dice.letters(2 + dice.below(5), alphabet));
  return vocabulary;
}

Ids cut(PieceCutter& cutter, const std::string& piece) {
  Ids ids;
  cutter.append(piece, ids);
  return ids;
}

TEST(Merging, IsTheDefinitionForLearntVocabularies) {
  Dice dice(1);
  for (int round = 0; round < 300; ++round) {
    const std::size_t alphabet = 1 + dice.below(4);
    const SmallVocabulary vocabulary = learnt_vocabulary(dice, alphabet);
    const MergeTable table(vocabulary.tokens);
    Merger merger(table);
    const std::optional<MergeRules> rules = MergeRules::find(vocabulary.tokens);
    ASSERT_TRUE(rules.has_value());
    PieceCutter cutter(*rules);
    if (round % 2 == 0) cutter.remember();
    for (int i = 0; i < 40; ++i) {
      const std::string piece = dice.letters(1 + dice.below(i == 0 ? 300 : 30), alphabet);
      const Ids expected = merged_by_definition(vocabulary.ranks, piece);
      ASSERT_EQ(merger.merge(piece), expected) << piece;
      ASSERT_EQ(cut(cutter, piece), expected) << piece;
    }
  }
}

TEST(Merging, IsTheDefinitionForArbitraryVocabularies) {
  Dice dice(2);
  int with_rules = 0;
  for (int round = 0; round < 600; ++round) {
    const std::size_t alphabet = 1 + dice.below(4);
    const SmallVocabulary vocabulary = arbitrary_vocabulary(dice, alphabet);
    const MergeTable table(vocabulary.tokens);
    Merger merger(table);
    const std::optional<MergeRules> rules = MergeRules::find(vocabulary.tokens);
    with_rules += rules.has_value() ? 1 : 0;
    std::optional<PieceCutter> cutter;
    if (rules) cutter.emplace(*rules);
    if (cutter && round % 2 == 0) cutter->remember();
    for (int i = 0; i < 20; ++i) {
      const std::string piece = dice.letters(1 + dice.below(30), alphabet);
      const Ids expected = merged_by_definition(vocabulary.ranks, piece);
      ASSERT_EQ(merger.merge(piece), expected) << piece;
      if (cutter) {
        ASSERT_EQ(cut(*cutter, piece), expected) << piece;
      }
    }
  }
  EXPECT_GT(with_rules, 10)
      << "some arbitrary vocabularies must be well-formed, or half of this tests nothing";
  EXPECT_LT(with_rules, 590);
}

TEST(MergeRules, AreNotFoundForATokenThatNoMergeMakes) {
  SmallVocabulary vocabulary;
  for (const std::string& token : test::with_single_bytes({"abc"})) vocabulary.add(token);
  EXPECT_FALSE(MergeRules::find(vocabulary.tokens).has_value());
  vocabulary.add("ab");  // makes it, but has a higher rank
  EXPECT_FALSE(MergeRules::find(vocabulary.tokens).has_value());
}

TEST(MergeRules, DoNotMindSingleBytesOfHighRank) {
  SmallVocabulary vocabulary;
  std::vector<std::string> tokens = test::with_single_bytes({"ab", "abab"});
  std::swap(tokens['a'], tokens[256]);
  std::swap(tokens['b'], tokens[257]);
  for (const std::string& token : tokens) vocabulary.add(token);  // "ab" 97, "abab" 98, "a" 256, "b" 257
  const std::optional<MergeRules> rules = MergeRules::find(vocabulary.tokens);
  ASSERT_TRUE(rules.has_value());
  PieceCutter cutter(*rules);
  EXPECT_EQ(cut(cutter, "ababaab"), (Ids{98, 256, 97}));
}

}  // namespace
}  // namespace perigee
