#include "text/json_tree.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "text/json_files.h"

namespace perigee {
namespace {

JsonTree parse(std::string text) {
  return JsonTree::parse(std::move(text), "body");
}

std::string repeated(std::string_view unit, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += unit;
  return text;
}

TEST(JsonTree, KeepsOrderDuplicatesAndLiterals) {
  const JsonTree tree = parse(R"( {"z": 1e2 , "a":[ 1 , {} ],"z":-0.50} )");
  const JsonNode& root = tree.root();
  ASSERT_TRUE(root.is(JsonKind::kObject));
  EXPECT_EQ(root.literal, R"({"z": 1e2 , "a":[ 1 , {} ],"z":-0.50})");
  ASSERT_EQ(root.members.size(), 3U);
  EXPECT_EQ(root.members[0].key, "z");
  EXPECT_EQ(root.members[0].value.literal, "1e2");
  EXPECT_EQ(root.members[1].key, "a");
  EXPECT_EQ(root.members[1].value.literal, "[ 1 , {} ]");
  EXPECT_EQ(root.members[1].value.items[1].literal, "{}");
  EXPECT_EQ(root.members[2].value.literal, "-0.50");
}

TEST(JsonTree, FindsTheLastOfDuplicateKeys) {
  const JsonTree tree = parse(R"({"a":1,"b":2,"a":3})");
  ASSERT_NE(tree.root().find("a"), nullptr);
  EXPECT_EQ(tree.root().find("a")->literal, "3");
  EXPECT_EQ(tree.root().find("c"), nullptr);
  EXPECT_EQ(tree.root().find("b")->find("a"), nullptr);
}

TEST(JsonTree, KnowsEveryKindByName) {
  const JsonTree tree = parse(R"([null,true,-1,"s",[],{}])");
  const char* names[] = {"null", "boolean", "number", "string", "array", "object"};
  for (std::size_t i = 0; i < 6; ++i) EXPECT_STREQ(json_kind_name(tree.root().items[i].kind), names[i]);
  EXPECT_TRUE(tree.root().items[1].is_true());
  EXPECT_FALSE(parse("false").root().is_true());
  EXPECT_FALSE(parse("\"true\"").root().is_true());
}

TEST(JsonTree, DecodesEveryEscape) {
  EXPECT_EQ(parse(R"("\"\\\/\b\f\n\r\t\u0041\u00e9\u20AC\ud83d\uDE42")").root().text,
            "\"\\/\b\f\n\r\tA\u00e9\u20ac\U0001f642");
  EXPECT_EQ(parse("\"a\\u0000b\"").root().text, std::string("a\0b", 3));
  EXPECT_EQ(parse(R"({"\u006b":1})").root().members[0].key, "k");
}

TEST(JsonTree, ReplacesEachLoneHalfOfASurrogatePair) {
  EXPECT_EQ(parse(R"("\ud800")").root().text, "\ufffd");
  EXPECT_EQ(parse(R"("\udfffx")").root().text, "\ufffdx");
  EXPECT_EQ(parse(R"("\ude42\ud83d")").root().text, "\ufffd\ufffd");
  EXPECT_EQ(parse(R"("\ud83d\ud83d\ude42")").root().text, "\ufffd\U0001f642");
  EXPECT_EQ(parse(R"("\ud83d\u0041")").root().text, "\ufffdA");
  EXPECT_EQ(parse(R"("\ud83d\\ude42")").root().text, "\ufffd\\ude42");
  EXPECT_EQ(parse(R"("\ud83d")").root().text, "\ufffd");
}

// A text this short lies inside a std::string and would move with it.
TEST(JsonTree, KeepsItsLiteralsWhenItIsMoved) {
  JsonTree first = parse("[7]");
  const JsonTree second = std::move(first);
  JsonTree third = parse("0");
  third = parse(R"({"k":"v"})");
  EXPECT_EQ(second.root().items[0].literal, "7");
  EXPECT_EQ(third.root().members[0].value.literal, "\"v\"");
}

struct Malformed {
  const char* text;
  const char* message;
};

TEST(JsonTree, SaysWhereAndWhatIsWrong) {
  const Malformed cases[] = {
      {"", "body: line 1, column 1: the text ends before the value does"},
      {"  \n ", "line 2, column 2: the text ends"},
      {"[1,\n2", "line 2, column 2: the text ends"},
      {"{\"a\":", "line 1, column 6: the text ends"},
      {"[1,]", "line 1, column 4: expected a value"},
      {"[,1]", "line 1, column 2: expected a value"},
      {"\n\n  nul", "line 3, column 3: expected a value"},
      {"[NaN]", "line 1, column 2: expected a value"},
      {"-Infinity", "line 1, column 1: expected a value"},
      {"[1 2]", "line 1, column 4: expected a comma or ] after an array item"},
      {"[1}", "line 1, column 3: expected a comma or ]"},
      {"{\"a\":1 \"b\"", "line 1, column 8: expected a comma or } after a member"},
      {"{\"a\":1,}", "line 1, column 8: expected a member name; put it in double quotes"},
      {"{a:1}", "line 1, column 2: expected a member name"},
      {"{1:2}", "line 1, column 2: expected a member name"},
      {"{\"a\" 1}", "line 1, column 6: expected a colon"},
      {"{\"a\"", "line 1, column 5: expected a colon"},
      {"[\"\u00e9\U0001f5fc\", x]", "line 1, column 8: expected a value"},
      {"[\"abc", "line 1, column 2: this string never ends"},
      {"\"\\\"", "line 1, column 1: this string never ends"},
      {"\"\\", "line 1, column 1: this string never ends"},
      {"\"a\nb\"", "line 1, column 3: control character in a string"},
      {"\"ab\\x41\"", "line 1, column 4: unknown escape"},
      {"\"\\u12\"", "line 1, column 2: incomplete \\u escape"},
      {"\"\\u", "line 1, column 2: incomplete \\u escape"},
      {"\r\n[01]", "line 2, column 2: a number begins with a needless zero"},
      {"-x", "line 1, column 2: a digit is missing"},
      {"1.", "line 1, column 3: a digit is missing"},
      {"[1.e5]", "line 1, column 4: a digit is missing"},
      {"1e+", "line 1, column 4: a digit is missing"},
      {"1 2", "line 1, column 3: text after the end of the value; remove it"},
      {"{}\n]", "line 2, column 1: text after the end"},
      {"\"a\"\"", "line 1, column 4: text after the end"},
  };
  for (const Malformed& c : cases) {
    SCOPED_TRACE(c.text);
    EXPECT_ERROR(parse(c.text), ErrorCode::kCorrupt, c.message);
  }
}

TEST(JsonTree, RefusesBytesThatAreNotUtf8) {
  const Malformed cases[] = {
      {"\xff", "line 1, column 1: a byte that is not UTF-8"},
      {"[\"\u00e9\",\n \"a\xc3\"]", "line 2, column 4: a byte"},
      {"\"\xed\xa0\x80\"", "line 1, column 2: a byte"},
      {"\"\xc0\xaf\"", "line 1, column 2: a byte"},
      {"\"ab\xe2\x82", "line 1, column 4: a byte"},
  };
  for (const Malformed& c : cases) EXPECT_ERROR(parse(c.text), ErrorCode::kCorrupt, c.message);
  EXPECT_FALSE(is_json_value("\"\xff\""));
}

TEST(JsonTree, RefusesMoreThanItsDepth) {
  const std::string deepest = repeated("[", JsonTree::kMaxDepth) + repeated("]", JsonTree::kMaxDepth);
  EXPECT_EQ(parse(deepest).root().literal, deepest);
  EXPECT_ERROR(parse("[" + deepest + "]"), ErrorCode::kCorrupt,
               "line 1, column 513: more than 512 levels of nesting; flatten the value");
  EXPECT_ERROR(parse(repeated("{\"a\":", 2000)), ErrorCode::kCorrupt, "more than 512 levels");
  EXPECT_ERROR(parse(repeated("[", 3000000)), ErrorCode::kCorrupt, "column 513: more than 512 levels");
}

TEST(JsonTree, RefusesMoreThanItsNumberOfValues) {
  EXPECT_ERROR(parse("[" + repeated("0,", JsonTree::kMaxValues) + "0]"), ErrorCode::kCorrupt,
               "more than 4194304 values; send less at once");
}

TEST(JsonTree, ReadsLargeDocumentsInLinearTime) {
  const std::string digits = repeated("1234567890", 1000000);
  EXPECT_EQ(parse(digits).root().literal.size(), digits.size());
  EXPECT_EQ(parse('"' + repeated("\\u00e9", 1000000) + '"').root().text, repeated("\u00e9", 1000000));
  EXPECT_EQ(parse("[" + repeated("[],", 300000) + "0]").root().items.size(), 300001U);
  EXPECT_ERROR(parse("[" + repeated(",", 3000000)), ErrorCode::kCorrupt, "column 2: expected a value");
}

TEST(IsJsonValue, AllowsWhiteSpaceAroundOneValue) {
  EXPECT_TRUE(is_json_value(" \t\r\n{\"a\":[1,2]}\n"));
  EXPECT_TRUE(is_json_value("1e400"));
  EXPECT_FALSE(is_json_value("1 2"));
  EXPECT_FALSE(is_json_value(""));
  EXPECT_FALSE(is_json_value("\u00a01"));
  EXPECT_FALSE(is_json_value("\v1"));
}

TEST(IsJsonValue, HasNoDepthLimit) {
  constexpr std::size_t kLevels = 1000000;
  const std::string open = repeated("[{\"a\":", kLevels);
  EXPECT_TRUE(is_json_value(open + "0" + repeated("}]", kLevels)));
  EXPECT_FALSE(is_json_value(open + "0" + repeated("]}", kLevels)));
  EXPECT_FALSE(is_json_value(open));
}

TEST(JsonTree, AcceptsWhatPythonAcceptsAndNoMore) {
  for (const auto& c : test::read_text_data("json_vectors.json", "documents")) {
    const std::string text = c.at("text");
    SCOPED_TRACE(text);
    const bool valid = !c.contains("invalid");
    EXPECT_EQ(is_json_value(text), valid);
    if (valid) {
      EXPECT_NO_THROW(parse(text));
    } else {
      EXPECT_THROW(parse(text), Error);
    }
  }
}

}  // namespace
}  // namespace perigee
