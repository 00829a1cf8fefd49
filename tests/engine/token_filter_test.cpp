#include <gtest/gtest.h>

#include "engine/sampler.h"
#include "support/expect_error.h"

namespace perigee {
namespace {

// Allows the ids of a list.
TokenFilter only(std::vector<std::uint32_t> ids) {
  return [ids](std::span<const std::uint32_t>, std::span<std::uint64_t> allowed) {
    for (const std::uint32_t id : ids) allowed[id / 64] |= std::uint64_t{1} << (id % 64);
  };
}

std::vector<float> rising_logits(std::size_t count) {
  std::vector<float> logits;
  for (std::size_t id = 0; id < count; ++id) logits.push_back(static_cast<float>(id) * 0.01F);
  return logits;
}

TEST(TokenFilter, LimitsTheChoiceAndNothingElse) {
  const std::vector<float> logits = rising_logits(150);
  SamplingOptions options;
  options.temperature = 0;
  EXPECT_EQ(sample(logits, options, {}, 0).chosen.id, 149u);
  const float most_likely = sample(logits, options, {}, 0, 1).top[0].log_probability;
  options.filter = only({3, 64, 130});
  const SampledToken filtered = sample(logits, options, {}, 0, 1);
  EXPECT_EQ(filtered.chosen.id, 130u);
  EXPECT_EQ(filtered.top[0].id, 149u) << "reported probabilities are the model's own";
  EXPECT_EQ(filtered.top[0].log_probability, most_likely);
}

TEST(TokenFilter, DrawsOnlyWhatIsAllowed) {
  const std::vector<float> logits = rising_logits(150);
  SamplingOptions options;
  options.top_p = 1;
  options.filter = only({5, 70});
  bool seen[2] = {false, false};
  for (std::uint64_t step = 0; step < 100; ++step) {
    const std::uint32_t id = sample(logits, options, {}, step).chosen.id;
    ASSERT_TRUE(id == 5 || id == 70) << id;
    seen[id == 70] = true;
  }
  EXPECT_TRUE(seen[0] && seen[1]);
}

TEST(TokenFilter, HearsOfEverythingGeneratedSoFar) {
  SamplingOptions options;
  std::vector<std::uint32_t> heard;
  options.filter = [&](std::span<const std::uint32_t> generated, std::span<std::uint64_t> allowed) {
    heard.assign(generated.begin(), generated.end());
    ASSERT_EQ(allowed.size(), 2u) << "a bit for each of 100 ids";
    allowed[0] = 2;
  };
  const std::vector<std::uint32_t> generated = {9, 8, 7};
  EXPECT_EQ(sample(rising_logits(100), options, generated, 3).chosen.id, 1u);
  EXPECT_EQ(heard, generated);
}

TEST(TokenFilter, BannedIdsStayBanned) {
  SamplingOptions options;
  options.filter = only({5, 70});
  options.banned = {70};
  EXPECT_EQ(sample(rising_logits(100), options, {}, 0).chosen.id, 5u);
  options.banned = {5, 70};
  EXPECT_ERROR(sample(rising_logits(100), options, {}, 0), ErrorCode::kUsage,
               "no token that could be chosen");
}

}  // namespace
}  // namespace perigee
