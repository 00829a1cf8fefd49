// A reply's streams do not depend on how its ids are grouped: every cut into two, one by one, and random
// groups, for every committed reply and for random ones.
#include <gtest/gtest.h>

#include <random>

#include "fuzz/text_checks.h"
#include "support/vocabularies.h"
#include "text/reply_cases.h"

namespace perigee {
namespace {

using test::ReplyCase;
using test::ReplyRun;

// Long replies are cut at places spread over them.
constexpr std::size_t kMaxCuts = 200;

void expect_same(const Tokenizer& tokenizer, const ReplyCase& one, const ReplyRun& whole,
                 std::span<const std::size_t> groups) {
  const ReplyRun run = test::run_reply(tokenizer, one.options, one.ended_by, one.ids, groups);
  EXPECT_EQ(run.fault, "") << one.name;
  EXPECT_EQ(test::difference(whole, run), "") << one.name;
}

void expect_any_grouping(const Tokenizer& tokenizer, const ReplyCase& one, std::mt19937& random) {
  const std::size_t size = one.ids.size();
  const ReplyRun whole = test::run_reply(tokenizer, one.options, one.ended_by, one.ids);
  EXPECT_EQ(whole.fault, "") << one.name;
  expect_same(tokenizer, one, whole, test::one_by_one(size));
  for (std::size_t cut = 0; cut <= size; cut += 1 + size / kMaxCuts)
    expect_same(tokenizer, one, whole, {&cut, 1});
  for (const unsigned longest : {2U, 5U, 30U}) {
    std::vector<std::size_t> groups(size);
    for (std::size_t& group : groups) group = random() % (longest + 1);
    expect_same(tokenizer, one, whole, groups);
  }
}

TEST(ReplySplit, GroupsOfIdsDoNotMatterForAnyVector) {
  const Tokenizer* tokenizer = test::k3_tokenizer();
  if (tokenizer == nullptr) GTEST_SKIP() << "the released vocabulary is not here";
  std::mt19937 random(1);
  for (const ReplyCase& one : test::reply_cases()) expect_any_grouping(*tokenizer, one, random);
}

// Other ids cut the same texts at other places.
TEST(ReplySplit, GroupsOfIdsDoNotMatterWithAnotherVocabulary) {
  std::mt19937 random(2);
  for (ReplyCase& one : test::reply_cases()) {
    one.ids = test::nano_tokenizer().encode_markup(one.text);
    expect_any_grouping(test::nano_tokenizer(), one, random);
  }
}

// Every reply of the vectors, with stop strings that occur in many of them.
TEST(ReplySplit, GroupsOfIdsDoNotMatterForStopStrings) {
  std::mt19937 random(3);
  for (ReplyCase& one : test::reply_cases()) {
    one.options.stop = {"B", "a b", " two", "答", "er is", "\n\n"};
    one.ids = test::nano_tokenizer().encode_markup(one.text);
    expect_any_grouping(test::nano_tokenizer(), one, random);
  }
}

TEST(ReplySplit, HoldsForRandomIds) {
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    std::vector<std::uint8_t> input(random() % 200);
    for (std::uint8_t& byte : input) byte = static_cast<std::uint8_t>(random());
    fuzz::check_reply(input);
  }
}

}  // namespace
}  // namespace perigee
