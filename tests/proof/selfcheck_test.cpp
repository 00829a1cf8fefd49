#include "proof/selfcheck.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proof/byte_vocabulary.h"
#include "support/expect_error.h"
#include "support/mini_model.h"

namespace perigee {
namespace {

using ::testing::ElementsAre;

const LoadedModel& weights() {
  static const LoadedModel loaded = LoadedModel::load(test::mini_model(), {});
  return loaded;
}

TEST(Selfcheck, CountsThreadsInPowersOfTwoUpToAllOfThem) {
  EXPECT_THAT(thread_counts(1), ElementsAre(1));
  EXPECT_THAT(thread_counts(2), ElementsAre(1, 2));
  EXPECT_THAT(thread_counts(12), ElementsAre(1, 2, 4, 8, 12));
}

TEST(Selfcheck, EveryRunOfAModelIsEqual) {
  SelfcheckOptions options;
  options.most_threads = 3;
  options.cycles = 2;
  options.tokens = 2;
  const Selfcheck check = run_selfcheck(weights(), control_ids(weights().config()), options, {});
  EXPECT_TRUE(check.equal());
  const std::size_t threaded = available_backends().size() - 1;
  ASSERT_EQ(check.rows.size(), 2 * (1 + 3 * threaded));  // 1, 2 and 3 threads
  EXPECT_NE(check.rows.front().prompt_chunk, check.rows.back().prompt_chunk);
  for (const SelfcheckRow& row : check.rows) {
    EXPECT_EQ(row.logits_hash, check.rows.front().logits_hash);
    EXPECT_EQ(row.top, check.rows.front().top);
  }
}

TEST(Selfcheck, TheHashIsOfThePromptAndThePrecision) {
  SelfcheckOptions options;
  options.backends = {"reference"};
  options.cycles = 1;
  options.tokens = 1;
  const auto hash = [&](const std::vector<TokenId>& prompt) {
    return run_selfcheck(weights(), prompt, options, {}).rows.at(0).logits_hash;
  };
  const std::uint64_t first = hash({1, 2, 3});
  EXPECT_EQ(first, hash({1, 2, 3}));
  EXPECT_NE(first, hash({1, 2, 4}));
  options.precision = Precision::kF32;
  EXPECT_NE(first, hash({1, 2, 3}));
}

TEST(Selfcheck, OneRunAloneOrADifferentOneIsNotEqual) {
  Selfcheck check;
  EXPECT_FALSE(check.equal());
  SelfcheckRow row;
  row.equal = true;
  check.rows = {row};
  EXPECT_FALSE(check.equal());
  check.rows = {row, row};
  EXPECT_TRUE(check.equal());
  check.rows[1].equal = false;
  EXPECT_FALSE(check.equal());
}

TEST(Selfcheck, RefusesToDoNothing) {
  SelfcheckOptions options;
  options.cycles = 0;
  EXPECT_ERROR(run_selfcheck(weights(), {1}, options, {}), ErrorCode::kUsage, "cycle");
  options.cycles = 1;
  options.tokens = 0;
  EXPECT_ERROR(run_selfcheck(weights(), {1}, options, {}), ErrorCode::kUsage, "token");
}

TEST(Selfcheck, TheControlPromptIsAFramedQuestionThatOpensThinking) {
  const Tokenizer tokenizer = test::byte_tokenizer();
  const std::vector<TokenId> prompt = control_prompt(tokenizer);
  EXPECT_EQ(prompt.front(), test::kOpen);
  EXPECT_EQ(std::vector<TokenId>(prompt.end() - 7, prompt.end()), test::byte_ids("<|open|>think<|sep|>"));
}

TEST(Selfcheck, FixedIdsAreOnesThatTheModelHas) {
  const std::vector<TokenId> ids = control_ids(weights().config());
  EXPECT_GT(ids.size(), 32u);  // more than the pieces that a prompt is cut into
  for (const TokenId id : ids) EXPECT_LT(id, weights().config().vocab_size);
}

}  // namespace
}  // namespace perigee
