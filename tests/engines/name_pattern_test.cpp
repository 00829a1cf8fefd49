// Expected values are those of Python 3's fnmatch.fnmatchcase, re.match and re.fullmatch.
#include "engines/name_pattern.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace perigee {
namespace {

bool glob(std::string_view pattern, std::string_view name) {
  auto compiled = NamePattern::glob(pattern);
  EXPECT_TRUE(compiled) << pattern;
  return compiled && compiled->matches_whole(name);
}

bool starts(std::string_view pattern, std::string_view name) {
  auto compiled = NamePattern::regex(pattern);
  EXPECT_TRUE(compiled) << pattern;
  return compiled && compiled->matches_start(name);
}

bool whole(std::string_view pattern, std::string_view name) {
  auto compiled = NamePattern::regex(pattern);
  EXPECT_TRUE(compiled) << pattern;
  return compiled && compiled->matches_whole(name);
}

TEST(NameGlob, StarCrossesDots) {
  EXPECT_TRUE(glob("*mlp.gate", "model.layers.3.mlp.gate"));
  EXPECT_TRUE(glob("a*c", "abbbc"));
  EXPECT_TRUE(glob("*", ""));
  EXPECT_FALSE(glob("*mlp.gate", "model.layers.3.mlp.gate_proj"));
  EXPECT_FALSE(glob("a*c", "abcd"));
}

TEST(NameGlob, ADotIsADotAndTheWholeNameMustMatch) {
  EXPECT_FALSE(glob("a.c", "abc"));
  EXPECT_FALSE(glob("lm_head", "language_model.lm_head"));
  EXPECT_TRUE(glob("lm_head", "lm_head"));
}

TEST(NameGlob, KnowsQuestionMarksAndCharacterSets) {
  EXPECT_TRUE(glob("w?", "w1"));
  EXPECT_FALSE(glob("w?", "w"));
  EXPECT_TRUE(glob("w[13]", "w3"));
  EXPECT_FALSE(glob("w[13]", "w2"));
  EXPECT_TRUE(glob("w[!13]", "w2"));
  EXPECT_TRUE(glob("layers.[0-9].mlp", "layers.7.mlp"));
  EXPECT_FALSE(glob("layers.[0-9].mlp", "layers.10.mlp"));
  EXPECT_TRUE(glob("a[b", "a[b"));
  EXPECT_TRUE(glob("a+(b)", "a+(b)"));
}

TEST(NameRegex, MatchesFromTheStartAndNotNecessarilyToTheEnd) {
  EXPECT_TRUE(starts(".*self_attn.*", "model.layers.0.self_attn.q_proj"));
  EXPECT_TRUE(starts("model", "model.layers"));
  EXPECT_FALSE(starts("layers", "model.layers"));
  EXPECT_FALSE(whole("model", "model.layers"));
  EXPECT_TRUE(starts("", "anything"));
  EXPECT_FALSE(starts("model$", "model.layers"));
  EXPECT_TRUE(starts("^model$", "model"));
}

TEST(NameRegex, UnderstandsTheReleasedList) {
  const std::string mlp = ".*mlp\\.(gate|up|gate_up|down)_proj.*";
  EXPECT_TRUE(starts(mlp, "model.layers.0.mlp.gate_up_proj"));
  EXPECT_TRUE(starts(mlp, "model.layers.0.mlp.down_proj"));
  EXPECT_FALSE(starts(mlp, "model.layers.1.mlp.experts.0.gate_proj"));
  EXPECT_FALSE(starts(mlp, "model.layers.0.mlp_gate_proj"));
}

TEST(NameRegex, UnderstandsRepetitionGroupsAndClasses) {
  EXPECT_TRUE(whole("(ab)+c?", "ababc"));
  EXPECT_FALSE(whole("(ab)+c?", "c"));
  EXPECT_TRUE(whole("(?:a|b)*?x", "abax"));
  EXPECT_TRUE(whole("layers\\.\\d+\\.mlp", "layers.10.mlp"));
  EXPECT_FALSE(whole("layers\\.\\d\\.mlp", "layers.10.mlp"));
  EXPECT_TRUE(whole("[^.]+\\.w[1-3]", "experts.w2"));
  EXPECT_FALSE(whole("[^.]+\\.w[1-3]", "a.b.w2"));
  EXPECT_TRUE(whole("[\\w-]+", "q_a-7"));
  EXPECT_TRUE(whole("[]a]+", "]a"));
  EXPECT_TRUE(whole("(a*)*b", "aaab"));
  EXPECT_TRUE(whole("|a", ""));
}

TEST(NameRegex, RefusesWhatItDoesNotUnderstandInsteadOfGuessing) {
  for (const char* pattern : {"(?!experts).*", "(?=a)", "(?<n>a)", "a{2}", "\\bword", "(a)\\1", "(a", "a)",
                              "[a", "*a", "a**", "a\\", "[z-a]", "a?{2}", "^*", "a$+"}) {
    EXPECT_FALSE(NamePattern::regex(pattern)) << pattern;
  }
  EXPECT_FALSE(NamePattern::regex(std::string(NamePattern::kMaxLength + 1, 'a')));
  EXPECT_FALSE(NamePattern::regex(std::string(200, '(') + std::string(200, ')')));
}

TEST(NameRegex, HostilePatternsTakeLinearTime) {
  const std::string name(100'000, 'a');
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(whole("(a*)*(a*)*(a|a)*(a?a?a?)*b", name));
  EXPECT_FALSE(starts("(.*)(.*)(.*)(.*)(.*)(.*)x$", name));
  std::string many;
  for (int i = 0; i < 30; ++i) many += "(a|aa)";
  EXPECT_FALSE(whole(".*" + many + "b" + many, name));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

// An automaton with more states than are kept: the 12th letter from the end.
TEST(NameRegex, StaysRightWhenItForgetsStates) {
  auto pattern = NamePattern::regex("[ab]*a[ab][ab][ab][ab][ab][ab][ab][ab][ab][ab][ab]");
  ASSERT_TRUE(pattern);
  std::uint32_t random = 1;
  std::string name;
  for (int i = 0; i < 400; ++i) {
    random = random * 1664525u + 1013904223u;
    name += (random >> 24) % 2 == 0 ? 'a' : 'b';
    const bool expected = name.size() >= 12 && name[name.size() - 12] == 'a';
    ASSERT_EQ(pattern->matches_whole(name), expected) << i;
  }
}

}  // namespace
}  // namespace perigee
