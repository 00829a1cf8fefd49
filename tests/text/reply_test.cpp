#include "text/reply.h"

#include <gtest/gtest.h>

namespace perigee {
namespace {

// These words are part of the API that clients see.
TEST(Reply, NamesWhyItEndedAsOpenAiDoes) {
  EXPECT_STREQ(finish_reason_name(FinishReason::kStop), "stop");
  EXPECT_STREQ(finish_reason_name(FinishReason::kLength), "length");
  EXPECT_STREQ(finish_reason_name(FinishReason::kToolCalls), "tool_calls");
}

TEST(Reply, NamesChannelsAsTheirTags) {
  EXPECT_STREQ(channel_name(Channel::kThink), "think");
  EXPECT_STREQ(channel_name(Channel::kResponse), "response");
}

}  // namespace
}  // namespace perigee
