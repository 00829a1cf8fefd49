#include "text/json_write.h"

#include <gtest/gtest.h>

#include "text/json_files.h"
#include "text/python_float.h"

namespace perigee {
namespace {

JsonTree parse(const std::string& text) {
  return JsonTree::parse(text, "test");
}

TEST(JsonWrite, DeclaresToolsAsTheReleasedEncoderDoes) {
  for (const auto& c : test::read_text_data("chat/tool_codec.json", "declare")) {
    SCOPED_TRACE(c.at("name"));
    EXPECT_EQ(sorted_compact_json(parse(c.at("tools")).root()), c.at("json"));
  }
}

TEST(JsonWrite, WritesDocumentsAsPythonDoes) {
  std::size_t written = 0;
  for (const auto& c : test::read_text_data("json_vectors.json", "documents")) {
    if (c.contains("invalid")) continue;
    const JsonTree tree = parse(c.at("text"));
    SCOPED_TRACE(c.at("text"));
    EXPECT_EQ(sorted_compact_json(tree.root()), c.at("sorted"));
    EXPECT_EQ(python_json(tree.root()), c.at("python"));
    ++written;
  }
  EXPECT_GT(written, 100U);
}

TEST(JsonWrite, WritesNumbersAsPythonDoes) {
  for (const auto& c : test::read_text_data("json_vectors.json", "numbers")) {
    EXPECT_EQ(python_number(c.at(0).get<std::string>()), c.at(1)) << c.at(0);
  }
}

// The place of the first digit and the exponent may each be far outside of what a double can hold.
TEST(PythonNumber, TellsTooLargeFromTooSmall) {
  const std::string zeros(100000, '0');
  EXPECT_EQ(python_number("1" + zeros + "e-100000"), "1.0");
  EXPECT_EQ(python_number("0." + zeros + "1e100001"), "1.0");
  EXPECT_EQ(python_number("1" + zeros + "e-99000"), "Infinity");
  EXPECT_EQ(python_number("-1" + zeros + "e-101000"), "-0.0");
  EXPECT_EQ(python_number("0." + zeros + "1e101001"), "Infinity");
  EXPECT_EQ(python_number("-0." + zeros + "1e99001"), "-0.0");
  EXPECT_EQ(python_number("0." + zeros + "e9223372036854775808"), "0.0");
  EXPECT_EQ(python_number("1" + zeros + "e-9223372036854775808"), "0.0");
}

TEST(PythonFloat, NamesWhatIsNotFinite) {
  EXPECT_EQ(python_float(std::numeric_limits<double>::quiet_NaN()), "NaN");
  EXPECT_EQ(python_float(std::numeric_limits<double>::infinity()), "Infinity");
  EXPECT_EQ(python_float(-std::numeric_limits<double>::infinity()), "-Infinity");
}

TEST(JsonWrite, LetsTheLastOfDuplicateKeysWin) {
  const JsonTree tree = parse(R"({"b":1,"a":2,"b":3,"c":{"x":1,"x":2},"a":4,"b":5})");
  EXPECT_EQ(sorted_compact_json(tree.root()), R"({"a":4,"b":5,"c":{"x":2}})");
  EXPECT_EQ(python_json(tree.root()), R"({"b": 5, "a": 4, "c": {"x": 2}})");
}

TEST(JsonWrite, WritesTheDeepestTree) {
  std::string text;
  for (unsigned i = 0; i < JsonTree::kMaxDepth; ++i) text += '[';
  text += std::string(JsonTree::kMaxDepth, ']');
  EXPECT_EQ(sorted_compact_json(parse(text).root()), text);
}

}  // namespace
}  // namespace perigee
