// Where long text is cut. Expected places are arithmetic: 25,000 characters of one kind, 400,000 in all.
#include "text/chunking.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace perigee {
namespace {

using Sizes = std::vector<std::size_t>;

std::string repeated(std::string_view unit, std::size_t times) {
  std::string text;
  for (std::size_t i = 0; i < times; ++i) text += unit;
  return text;
}

// Bytes of each chunk; the chunks must be the text, none of them empty.
Sizes chunk_sizes(const std::string& text) {
  Sizes sizes;
  std::string joined;
  for (Chunker chunker(text); !chunker.done();) {
    const std::string_view chunk = chunker.next();
    sizes.push_back(chunk.size());
    joined += chunk;
    if (chunk.empty()) break;
  }
  EXPECT_TRUE(joined == text);
  return sizes;
}

TEST(Chunking, GivesNothingForNoText) {
  EXPECT_EQ(chunk_sizes(""), Sizes{});
}

TEST(Chunking, LeavesARunOf25000Alone) {
  EXPECT_EQ(chunk_sizes(repeated("x", 25'000)), Sizes{25'000});
  EXPECT_EQ(chunk_sizes(repeated(" ", 25'000)), Sizes{25'000});
  EXPECT_EQ(chunk_sizes(repeated("x", 25'000) + repeated(" ", 25'000)), Sizes{50'000});
}

TEST(Chunking, CutsALongerRunBeforeTheCharacterThatIsTooMany) {
  EXPECT_EQ(chunk_sizes(repeated("x", 25'001)), (Sizes{25'000, 1}));
  EXPECT_EQ(chunk_sizes(repeated(" ", 25'001)), (Sizes{25'000, 1}));
  EXPECT_EQ(chunk_sizes(repeated("x", 75'000)), (Sizes{25'000, 25'000, 25'000}));
  EXPECT_EQ(chunk_sizes("a b " + repeated("x", 25'001) + " c"), (Sizes{25'004, 3}));
  EXPECT_EQ(chunk_sizes("x" + repeated(" ", 25'001) + repeated("x", 24'999)), (Sizes{25'001, 25'000}));
}

TEST(Chunking, GoesOnCountingTheRunAfterACut) {
  EXPECT_EQ(chunk_sizes(repeated("x", 30'000) + " " + repeated("x", 25'001)), (Sizes{25'000, 30'001, 1}));
  EXPECT_EQ(chunk_sizes(repeated("x", 50'001)), (Sizes{25'000, 25'000, 1}));
}

TEST(Chunking, CountsCharactersNotBytes) {
  EXPECT_EQ(chunk_sizes(repeated("你", 25'001)), (Sizes{75'000, 3}));
  EXPECT_EQ(chunk_sizes(repeated("\U0001F600", 25'001)), (Sizes{100'000, 4}));
  EXPECT_EQ(chunk_sizes(repeated("\u3000", 25'001)), (Sizes{75'000, 3}));
}

TEST(Chunking, CountsAnInvalidByteAsOneCharacterThatIsNoSpace) {
  EXPECT_EQ(chunk_sizes(repeated("\x85", 25'001)), (Sizes{25'000, 1}));
  EXPECT_EQ(chunk_sizes(repeated("\xF0\x9F", 12'501)), (Sizes{25'000, 2}));
  EXPECT_EQ(chunk_sizes(repeated("x", 20'000) + repeated("\xA0", 5'001)), (Sizes{25'000, 1}));
}

TEST(Chunking, TakesWhatPythonCallsSpaceForSpace) {
  for (const char* space :
       {"\t",     "\n",     "\v",     "\f",     "\r",     " ",      "\x1c",   "\x1d",   "\x1e",   "\x1f",
        "\u0085", "\u00a0", "\u1680", "\u2000", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"}) {
    const std::string text = repeated("x", 20'000) + space + repeated("x", 20'000);
    EXPECT_EQ(chunk_sizes(text), Sizes{text.size()}) << "a run must end at U+" << std::hex << +space[0];
    EXPECT_EQ(chunk_sizes(repeated(" ", 25'000) + space).size(), 2u) << "the run must go on";
  }
  for (const char* other : {"\x1b", "\u200b", "\u180e", "\ufeff", "\u2060", "\x7f", "\u2800"}) {
    const std::string text = repeated("x", 20'000) + other + repeated("x", 20'000);
    EXPECT_EQ(chunk_sizes(text).size(), 2u) << "a run must not end at U+" << std::hex << +other[0];
    EXPECT_EQ(chunk_sizes(repeated(" ", 25'000) + other).size(), 1u);
  }
}

TEST(Chunking, CutsEvery400000Characters) {
  EXPECT_EQ(chunk_sizes(repeated("x ", 200'000)), Sizes{400'000});
  EXPECT_EQ(chunk_sizes(repeated("x ", 200'000) + "x"), (Sizes{400'000, 1}));
  EXPECT_EQ(chunk_sizes(repeated("你\n", 450'000)), (Sizes{800'000, 800'000, 200'000}));
}

TEST(Chunking, BeginsRunsAnewInEverySlice) {
  // The run crosses the slice's end 10,000 characters after its beginning, and is cut 25,000 after that.
  const std::string text = repeated("x ", 195'000) + repeated("y", 40'000);
  EXPECT_EQ(chunk_sizes(text), (Sizes{400'000, 25'000, 5'000}));
}

TEST(Chunking, CountsSlicesThroughTheCutsOfRuns) {
  EXPECT_EQ(chunk_sizes(repeated("x", 400'001)).size(), 17u);
  // 30,000 letters are cut once; the slice still ends at character 400,000.
  EXPECT_EQ(chunk_sizes(repeated("x", 30'000) + repeated(" y", 200'000)), (Sizes{25'000, 375'000, 30'000}));
}

}  // namespace
}  // namespace perigee
