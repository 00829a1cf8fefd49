#include "experts/trace.h"

#include <gtest/gtest.h>

#include "experts/usage_file.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace perigee {
namespace {

TEST(Trace, IsReadAsItWasWritten) {
  const test::TempDir folder;
  TraceWriter writer(folder / "trace", 3, 10, 4096);
  const std::vector<RoutedToken> two = {{{2, 7}, {0.5F, 0.5F}}, {{1, 7}, {0.5F, 0.5F}}};
  writer.foresee(2, std::vector<std::uint32_t>{9, 2, 4});
  writer.visit(1, two);
  writer.visit(2, std::span(two).first(1));
  writer.visit(2, std::span(two).first(1));
  writer.finish();
  const Trace trace = load_trace(folder / "trace");
  EXPECT_EQ(trace.layers, 3u);
  EXPECT_EQ(trace.experts, 10u);
  EXPECT_EQ(trace.expert_bytes, 4096u);
  ASSERT_EQ(trace.visits.size(), 3u);
  EXPECT_EQ(trace.visits[0].experts, (std::vector<std::uint32_t>{1, 2, 7}));
  EXPECT_EQ(trace.visits[0].tokens, 2u);
  EXPECT_EQ(trace.visits[1].layer, 2u);
  EXPECT_EQ(trace.visits[1].experts, (std::vector<std::uint32_t>{2, 7}));
  EXPECT_EQ(trace.tokens(), 2u);
  EXPECT_TRUE(trace.visits[0].foreseen.empty());
  EXPECT_EQ(trace.visits[1].foreseen, (std::vector<std::uint32_t>{9, 2, 4}));
  EXPECT_TRUE(trace.visits[2].foreseen.empty());  // it was for one visit
}

TEST(Trace, OfVersionOneIsStillRead) {
  const Trace trace = parse_trace("perigee routing trace 1\n2 8 100\n1 1 3 5\n", "x");
  EXPECT_EQ(trace.visits.at(0).experts, (std::vector<std::uint32_t>{3, 5}));
}

TEST(Trace, RefusesAForecastThatIsNone) {
  const std::string head = "perigee routing trace 2\n2 8 100\n0 1 3";
  EXPECT_EQ(parse_trace(head + " | 7 3\n", "x").visits.at(0).foreseen, (std::vector<std::uint32_t>{7, 3}));
  EXPECT_ERROR(parse_trace(head + " |\n", "x"), ErrorCode::kCorrupt, "line 3");
  EXPECT_ERROR(parse_trace(head + " | 8\n", "x"), ErrorCode::kCorrupt, "line 3");
  EXPECT_ERROR(parse_trace(head + " | 7 7\n", "x"), ErrorCode::kCorrupt, "twice");
  EXPECT_ERROR(parse_trace(head + " | 7 | 3\n", "x"), ErrorCode::kCorrupt, "line 3");
}

TEST(Trace, IsRefusedWithTheLineThatIsWrong) {
  const std::string head = "perigee routing trace 1\n2 8 100\n";
  EXPECT_ERROR(parse_trace("something else", "x"), ErrorCode::kCorrupt, "x is not a trace");
  EXPECT_ERROR(parse_trace("perigee routing trace 1\n", "x"), ErrorCode::kCorrupt, "line 1");
  EXPECT_ERROR(parse_trace("perigee routing trace 1\n0 8 1\n", "x"), ErrorCode::kCorrupt, "line 2");
  EXPECT_ERROR(parse_trace(head + "0 1 3\n2 1 3\n", "x"), ErrorCode::kCorrupt, "line 4");
  EXPECT_ERROR(parse_trace(head + "0 1 8\n", "x"), ErrorCode::kCorrupt, "line 3");
  EXPECT_ERROR(parse_trace(head + "0 1 5 5\n", "x"), ErrorCode::kCorrupt, "ascending");
  EXPECT_ERROR(parse_trace(head + "0 1 -1\n", "x"), ErrorCode::kCorrupt, "line 3");
  EXPECT_ERROR(parse_trace(head + "99999999999999999999 1\n", "x"), ErrorCode::kCorrupt, "line 3");
}

TEST(UsageFile, IsReadAsItWasWritten) {
  const test::TempDir folder;
  const ExpertUsage usage{2, 3, {0, 0.25F, 1, 0.000001F, 0.5F, 0}};
  EXPECT_FALSE(load_usage(folder / "usage").has_value());
  save_usage(usage, folder / "usage");
  const auto read = load_usage(folder / "usage");
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->layers, 2u);
  EXPECT_EQ(read->experts, 3u);
  EXPECT_EQ(read->rates, usage.rates);
}

TEST(UsageFile, IsRefusedWithTheLineThatIsWrong) {
  const std::string title = "perigee expert usage 1\n";
  EXPECT_ERROR(parse_usage("", "x"), ErrorCode::kCorrupt, "x, line 1");
  EXPECT_ERROR(parse_usage(title + "1000000 layers 1000000 experts\n1 2\n", "x"), ErrorCode::kCorrupt,
               "fewer");
  EXPECT_ERROR(parse_usage(title + "1 layers 2 experts\n1 1000001\n", "x"), ErrorCode::kCorrupt, "line 3");
  EXPECT_ERROR(parse_usage(title + "1 layers 2 experts\n1 2 3\n", "x"), ErrorCode::kCorrupt, "line 3");
  EXPECT_ERROR(parse_usage(title + "1 layers 2 experts\n1 2\nmore", "x"), ErrorCode::kCorrupt, "line 4");
}

}  // namespace
}  // namespace perigee
