// What Anthropic's dialect forbids the sampler: thoughts beyond their budget, and what tools and formats rule
// out.
#include "grammar/reply_grammar.h"
#include "serve/anthropic_fixture.h"

namespace perigee {
namespace {

using namespace test;
using nlohmann::json;
using ::testing::HasSubstr;

class ThinkingBudget : public AnthropicFixture {};

// The ids that may follow `generated`, as a sampler would ask.
class Filtered {
 public:
  explicit Filtered(const Job& job) : filter_(job.request.sampling.filter) {}

  std::vector<TokenId> generated;

  bool allows(TokenId id) {
    std::vector<std::uint64_t> bits(nano().vocabulary().size() / 64 + 1);
    filter_(generated, bits);
    return (bits[id / 64] >> (id % 64) & 1) != 0;
  }
  bool allows(const std::string& next) { return allows(markup(next).at(0)); }
  void say(const std::string& text) {
    for (const TokenId id : markup(text)) generated.push_back(id);
  }
  // Says what is left no choice.
  std::string forced() {
    std::string text;
    for (;;) {
      std::vector<std::uint64_t> bits(nano().vocabulary().size() / 64 + 1);
      filter_(generated, bits);
      std::vector<TokenId> ids;
      for (TokenId id = 0; id < nano().vocabulary().size(); ++id) {
        if ((bits[id / 64] >> (id % 64) & 1) != 0) ids.push_back(id);
      }
      if (ids.size() != 1) return text;
      generated.push_back(ids[0]);
      text += nano().vocabulary().bytes(ids[0]);
    }
  }

 private:
  TokenFilter filter_;
};

const std::string kBudget = R"("thinking":{"type":"enabled","budget_tokens":3})";
const std::string kWayOut = "<|close|>think<|sep|><|open|>response<|sep|>";

TEST_F(ThinkingBudget, EndsAThoughtThatHasUsedItsBudget) {
  answer(request(kHi, kBudget));
  Filtered reply(job());
  reply.generated = {65, 66};
  EXPECT_TRUE(reply.allows(67));
  reply.generated.push_back(67);
  EXPECT_FALSE(reply.allows(68));
  EXPECT_EQ(reply.forced(), kWayOut);
  EXPECT_TRUE(reply.allows(68));
}

TEST_F(ThinkingBudget, LeavesAThoughtAloneThatEndsByItself) {
  answer(request(kHi, kBudget));
  Filtered reply(job());
  reply.generated = {65};
  EXPECT_TRUE(reply.allows("<|close|>"));
  reply.say("<|close|>think<|sep|>");
  EXPECT_TRUE(reply.allows(67));
}

TEST_F(ThinkingBudget, EndsNoThoughtInsideACharacter) {
  const Vocabulary& vocabulary = nano().vocabulary();
  const auto byte = [&](const std::string& bytes) {
    TokenId id = 0;
    while (vocabulary.bytes(id) != bytes) ++id;
    return id;
  };
  answer(request(kHi, kBudget));
  Filtered reply(job());
  reply.generated = {65, 66, byte("\xC3")};
  EXPECT_TRUE(reply.allows(byte("\xA9")));
  reply.generated.push_back(byte("\xA9"));
  EXPECT_EQ(reply.forced(), kWayOut);
}

TEST_F(ThinkingBudget, HasNoBudgetWithoutAThought) {
  for (const char* thinking :
       {R"("thinking":{"type":"adaptive","budget_tokens":3})",
        R"("thinking":{"type":"disabled","budget_tokens":3})", R"("thinking":{"type":"enabled"})"}) {
    answer(request(kHi, thinking));
    EXPECT_FALSE(job().request.sampling.filter) << thinking;
  }
}

class HeldAnthropic : public AnthropicFixture {
 protected:
  HeldAnthropic() { server.context.grammars = &grammars_; }

 private:
  ReplyGrammars grammars_{nano().vocabulary()};
};

TEST_F(HeldAnthropic, HoldsTheAnswerToASchema) {
  const std::string schema = R"({"type":"json_schema","schema":{"type":"integer"}})";
  for (const std::string& field :
       {R"("output_config":{"format":)" + schema + "}", R"("output_format":)" + schema}) {
    answer(request(kHi, kOff + "," + field));
    EXPECT_THAT(prompt(), HasSubstr(R"({"type":"integer"})"));
    Filtered reply(job());
    EXPECT_TRUE(reply.allows("7"));
    EXPECT_FALSE(reply.allows("{"));
  }
}

TEST_F(HeldAnthropic, HoldsAThoughtToItsBudgetAndTheAnswerToItsSchema) {
  answer(request(
      kHi, kBudget + R"(,"output_config":{"format":{"type":"json_schema","schema":{"type":"integer"}}})"));
  Filtered reply(job());
  reply.generated = {65, 66, 67};
  EXPECT_EQ(reply.forced(), kWayOut);
  EXPECT_TRUE(reply.allows("7"));
  EXPECT_FALSE(reply.allows("{"));
}

TEST_F(HeldAnthropic, RefusesASchemaThatCannotBeFollowed) {
  const std::string sentence = refused(request(
      kHi,
      R"("output_config":{"format":{"type":"json_schema","schema":{"type":"string","pattern":"(?<=a)b"}}})"));
  EXPECT_THAT(sentence, HasSubstr("pattern"));
}

TEST_F(HeldAnthropic, HoldsTheReplyToAChoice) {
  const std::string two =
      R"("tools":[{"name":"a","input_schema":{}},{"name":"b","input_schema":{}}],)" + kOff;
  const std::string answered = "x<|close|>response<|sep|>";
  const std::string called = answered + "<|open|>tools<|sep|>" + call("a", "1", "");
  const auto allows = [&](const std::string& choice, const std::string& said, const std::string& next) {
    answer(request(kHi, two + R"(,"tool_choice":)" + choice));
    Filtered reply(job());
    reply.say(said);
    return reply.allows(next);
  };
  EXPECT_TRUE(allows(R"({"type":"any"})", answered, "<|open|>"));
  EXPECT_FALSE(allows(R"({"type":"any"})", answered, "<|close|>"));
  EXPECT_TRUE(allows(R"({"type":"auto"})", answered, "<|close|>"));
  EXPECT_FALSE(allows(R"({"type":"none"})", answered, "<|open|>"));
  const std::string named = answered + "<|open|>tools<|sep|><|open|>call tool=\"";
  EXPECT_TRUE(allows(R"({"type":"tool","name":"b"})", named, "b"));
  EXPECT_FALSE(allows(R"({"type":"tool","name":"b"})", named, "a"));
  EXPECT_TRUE(allows(R"({"type":"any"})", called, "<|open|>"));
  EXPECT_FALSE(allows(R"({"type":"any","disable_parallel_tool_use":true})", called, "<|open|>"));
}

}  // namespace
}  // namespace perigee
