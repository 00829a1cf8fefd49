#include "text/thinking_json.h"

#include <gtest/gtest.h>

#include "text/refusals.h"

namespace perigee {
namespace {

using test::conversation_of;
using test::raw_rules;
using test::Refusal;
using test::refused_field;
using test::server_rules;
using test::with_fields;

struct Thinking {
  const char* fields;
  bool thinking;
  Effort effort;  // ignored where thinking is off
};

TEST(ThinkingJson, RanksTheWaysToSayHowMuchToThink) {
  const Thinking cases[] = {
      {R"("a":1)", true, Effort::kMax},
      {R"("reasoning_effort":null)", true, Effort::kMax},
      {R"("reasoning_effort":"minimal")", true, Effort::kLow},
      {R"("reasoning_effort":"low")", true, Effort::kLow},
      {R"("reasoning_effort":"medium")", true, Effort::kHigh},
      {R"("reasoning_effort":"high")", true, Effort::kHigh},
      {R"("reasoning_effort":"xhigh")", true, Effort::kMax},
      {R"("reasoning_effort":"max")", true, Effort::kMax},
      {R"("reasoning_effort":"none")", false, Effort::kMax},
      {R"("thinking":null)", true, Effort::kMax},
      {R"("thinking":{})", true, Effort::kMax},
      {R"("thinking":{"type":null})", true, Effort::kMax},
      {R"("thinking":{"type":"enabled"})", true, Effort::kMax},
      {R"("thinking":{"type":"adaptive"})", true, Effort::kMax},
      {R"("thinking":{"type":"disabled"})", false, Effort::kMax},
      {R"("thinking":{"keep":"none"})", true, Effort::kMax},
      {R"("thinking":true)", true, Effort::kMax},
      {R"("thinking":false)", false, Effort::kMax},
      {R"("enable_thinking":false)", false, Effort::kMax},
      {R"("thinking_effort":"high")", true, Effort::kHigh},
      {R"("thinking":{"effort":"medium"})", true, Effort::kHigh},
      {R"("thinking":{"effort":"low"},"reasoning_effort":"max")", true, Effort::kLow},
      {R"("thinking":{"effort":"low"},"reasoning_effort":"none")", true, Effort::kLow},
      {R"("thinking":{"type":"enabled"},"reasoning_effort":"none")", true, Effort::kMax},
      {R"("thinking":{"type":"enabled"},"reasoning_effort":"low")", true, Effort::kLow},
      {R"("thinking":{"type":"disabled","effort":"high"},"reasoning_effort":"high")", false, Effort::kMax},
      {R"("thinking":{"effort":"low"},"thinking_effort":"high")", true, Effort::kLow},
      {R"("thinking_effort":"low","reasoning_effort":"none")", true, Effort::kLow},
      {R"("chat_template_kwargs":{"thinking":false})", false, Effort::kMax},
      {R"("chat_template_kwargs":{"enable_thinking":false})", false, Effort::kMax},
      {R"("chat_template_kwargs":{"enable_thinking":false,"thinking":true})", true, Effort::kMax},
      {R"("chat_template_kwargs":{"preserve_thinking":false})", true, Effort::kMax},
      {R"("chat_template_kwargs":{"thinking":false},"thinking":{"type":"enabled"})", false, Effort::kMax},
      {R"("chat_template_kwargs":{"thinking":true},"reasoning_effort":"none")", true, Effort::kMax},
      {R"("chat_template_kwargs":{"thinking_effort":"low"},"thinking":{"effort":"high"},"reasoning_effort":"max")",
       true, Effort::kLow},
  };
  for (const Thinking& one : cases) {
    const Conversation read = conversation_of(with_fields(one.fields), server_rules());
    EXPECT_EQ(read.thinking, one.thinking) << one.fields;
    if (one.thinking) {
      EXPECT_EQ(read.effort, one.effort) << one.fields;
    }
  }
}

TEST(ThinkingJson, RefusesUnknownEffortsAlsoWhereAnotherFieldDecides) {
  const Refusal cases[] = {
      {R"("reasoning_effort":"turbo")", "reasoning_effort"},
      {R"("reasoning_effort":"HIGH")", "reasoning_effort"},
      {R"("reasoning_effort":3)", "reasoning_effort"},
      {R"("reasoning_effort":"turbo","thinking":{"effort":"low"})", "reasoning_effort"},
      {R"("thinking":"on")", "thinking"},
      {R"("thinking":{"type":"sometimes"})", "thinking.type"},
      {R"("thinking":{"effort":"turbo"})", "thinking.effort"},
      {R"("thinking":{"effort":"none"})", "thinking.effort"},
      {R"("thinking":{"effort":"turbo"},"chat_template_kwargs":{"thinking_effort":"low"})",
       "thinking.effort"},
      {R"("thinking_effort":"turbo")", "thinking_effort"},
      {R"("enable_thinking":"yes")", "enable_thinking"},
      {R"("chat_template_kwargs":7)", "chat_template_kwargs"},
      {R"("chat_template_kwargs":{"thinking":"no"})", "chat_template_kwargs.thinking"},
      {R"("chat_template_kwargs":{"thinking_effort":"turbo"})", "chat_template_kwargs.thinking_effort"},
  };
  for (const Refusal& one : cases)
    EXPECT_EQ(refused_field(with_fields(one.request)), one.param) << one.request;
}

TEST(ThinkingJson, LeavesTheEffortUnsetWithoutADefault) {
  EXPECT_EQ(conversation_of(R"([{"role":"user"}])", raw_rules()).effort, std::nullopt);
}

}  // namespace
}  // namespace perigee
