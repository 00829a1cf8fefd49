// The watcher is what makes the stream rows of the parity table mean something: each promise, broken once.
#include "proof/stream_watcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace perigee {
namespace {

using ::testing::IsEmpty;
using ::testing::StartsWith;
using Kind = ReplyDelta::Kind;

std::string violation_of(const std::vector<ReplyDelta>& deltas, bool marker_text = false,
                         bool after_end = false) {
  StreamWatcher watcher(marker_text);
  watcher.take(deltas, after_end);
  return watcher.violation();
}

TEST(StreamWatcher, JoinsWhatItIsGiven) {
  StreamWatcher watcher(false);
  watcher.take(std::vector<ReplyDelta>{{Kind::kReasoning, 0, "r", ""},
                                       {Kind::kContent, 0, "c", ""},
                                       {Kind::kReasoning, 0, "s", ""},
                                       {Kind::kCallStart, 0, "f", "f_0"},
                                       {Kind::kCallArguments, 0, "{", ""},
                                       {Kind::kCallArguments, 0, "}", ""},
                                       {Kind::kCallStart, 1, "g", "g_1"}},
               false);
  EXPECT_THAT(watcher.violation(), IsEmpty());
  EXPECT_EQ(describe(watcher.streams()),
            "reasoning_content: \"rs\"\ncontent: \"c\"\ncall f_0 f: {}\ncall g_1 g: \nfinish_reason: ");
}

TEST(StreamWatcher, ReportsPartOfACharacter) {
  EXPECT_THAT(violation_of({{Kind::kContent, 0, "\xc3", ""}, {Kind::kContent, 0, "\xa9", ""}}),
              StartsWith("a delta that holds part of a character"));
  EXPECT_THAT(violation_of({{Kind::kContent, 0, "\xc3\xa9", ""}}), IsEmpty());
}

TEST(StreamWatcher, ReportsMarkersUnlessTheyAreText) {
  for (const char* marker : {"<|open|>", "x<|close|>", "<|sep|>y", "<|end_of_msg|>"}) {
    EXPECT_THAT(violation_of({{Kind::kReasoning, 0, marker, ""}}),
                StartsWith("a delta that holds marker text"));
    EXPECT_THAT(violation_of({{Kind::kReasoning, 0, marker, ""}}, /*marker_text=*/true), IsEmpty());
  }
}

TEST(StreamWatcher, ReportsCallsOutOfOrder) {
  const ReplyDelta first{Kind::kCallStart, 0, "f", "f_0"}, second{Kind::kCallStart, 1, "g", "g_1"};
  EXPECT_THAT(violation_of({first, second}), IsEmpty());
  EXPECT_THAT(violation_of({second}), StartsWith("a call announced twice or out of order"));
  EXPECT_THAT(violation_of({first, first}), StartsWith("a call announced twice or out of order"));
  EXPECT_THAT(violation_of({{Kind::kCallStart, 0, "", "f_0"}}),
              StartsWith("a call announced without its name"));
}

TEST(StreamWatcher, ReportsArgumentsOfAnotherCall) {
  const ReplyDelta first{Kind::kCallStart, 0, "f", "f_0"}, second{Kind::kCallStart, 1, "g", "g_1"};
  const ReplyDelta late{Kind::kCallArguments, 0, "{}", ""};
  EXPECT_THAT(violation_of({first, late, second}), IsEmpty());
  EXPECT_THAT(violation_of({late}), StartsWith("arguments of a call that is not the last one"));
  EXPECT_THAT(violation_of({first, second, late}),
              StartsWith("arguments of a call that is not the last one"));
}

TEST(StreamWatcher, ReportsWhatComesAfterTheEnd) {
  EXPECT_THAT(violation_of({{Kind::kContent, 0, "x", ""}}, false, /*after_end=*/true),
              StartsWith("a delta after the end"));
  EXPECT_THAT(violation_of({}, false, /*after_end=*/true), IsEmpty());
}

}  // namespace
}  // namespace perigee
