#include "text/argument_writer.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <vector>

#include "text/json_files.h"

namespace perigee {
namespace {

struct Element {
  std::optional<std::string> key;  // unset: a raw block, or an argument that lost its key
  std::string type;
  std::string value;
  bool raw = false;
};

std::optional<std::string> attribute(std::string_view header, const std::string& name) {
  const std::string opening = name + "=\"";
  const std::size_t at = header.find(opening);
  if (at == std::string_view::npos) return std::nullopt;
  const std::size_t begin = at + opening.size();
  std::string value(header.substr(begin, header.find('"', begin) - begin));
  for (const auto& [entity, character] : {std::pair{"&quot;", "\""}, std::pair{"&amp;", "&"}}) {
    for (std::size_t i = value.find(entity); i != std::string::npos; i = value.find(entity, i + 1)) {
      value.replace(i, std::string_view(entity).size(), character);
    }
  }
  return value;
}

// The elements of a reply's text. Only for replies whose values spell no markers.
std::vector<Element> elements_of(const std::string& text) {
  std::vector<Element> found;
  for (std::size_t at = text.find("<|open|>"); at != std::string::npos; at = text.find("<|open|>", at + 1)) {
    const std::size_t begin = at + 8;
    const std::size_t sep = text.find("<|sep|>", begin);
    const std::string header = text.substr(begin, sep - begin);
    const bool raw = header.starts_with("json");
    if (!raw && !header.starts_with("argument")) continue;
    const std::size_t value = sep + 7;
    found.push_back({attribute(header, "key"), attribute(header, "type").value_or(""),
                     text.substr(value, text.find("<|close|>", value) - value), raw});
  }
  return found;
}

// The values in pieces that begin and end where `cuts` says: a cut at 3 is after the third byte.
std::string write(const std::vector<Element>& elements, const std::set<std::size_t>& cuts,
                  ArgumentWriter& writer) {
  std::string joined;
  for (const Element& element : elements) {
    std::string piece;
    if (!element.raw && !element.key) continue;  // the parser drops these
    element.raw ? writer.begin_raw(piece) : writer.begin_argument(*element.key, element.type, piece);
    joined += piece;
    std::size_t begin = 0;
    for (std::size_t end = 1; end <= element.value.size(); ++end) {
      if (end != element.value.size() && !cuts.contains(end)) continue;
      piece.clear();
      writer.append_value(std::string_view(element.value).substr(begin, end - begin), piece);
      joined += piece;
      begin = end;
    }
    piece.clear();
    writer.end_element(piece);
    joined += piece;
  }
  std::string rest;
  writer.finish(rest);
  return joined + rest;
}

bool notes(const nlohmann::json& c, const char* note) {
  for (const auto& one : c.at("notes")) {
    if (one == note) return true;
  }
  return false;
}

// The replies that are about values; the others need the parser's repairs first.
bool is_about_values(std::string_view name) {
  const std::set<std::string_view> families = {"num", "bool", "null", "obj", "arr",
                                               "str", "type", "key",  "raw"};
  return families.contains(name.substr(0, name.find('_'))) && name != "str_markers";
}

TEST(ArgumentWriter, WritesTheArgumentsOfEveryReply) {
  std::size_t checked = 0;
  for (const auto& c : test::read_text_data("chat/reply_parser.json", "cases")) {
    const std::string name = c.at("name");
    if (!is_about_values(name)) continue;
    SCOPED_TRACE(name);
    const auto& calls = c.at("expected").at("tool_calls");
    ASSERT_EQ(calls.size(), 1U);
    ArgumentWriter writer;
    EXPECT_EQ(write(elements_of(c.at("text")), {}, writer), calls[0].at("arguments"));
    EXPECT_EQ(writer.not_json(), notes(c, "not_json"));
    EXPECT_EQ(writer.mixed(), notes(c, "mixed_elements"));
    ++checked;
  }
  EXPECT_GT(checked, 60U);
}

TEST(ArgumentWriter, GivesTheSameTextForEveryCut) {
  const std::vector<std::vector<Element>> calls = {
      {{"s", "string", "q\"b\\n\nt\tc\x01", false}, {"n", "number", " 12 ", false}},
      {{"o", "object", "{\"a\": [1]}", false}, {"bad", "object", "{\"a\":1,}", false}},
      {{std::nullopt, "object", "{\"x\": 1", true}, {"late", "string", "dropped", false}},
  };
  for (const auto& elements : calls) {
    ArgumentWriter whole_writer;
    const std::string whole = write(elements, {}, whole_writer);
    for (std::size_t cuts = 0; cuts < 1U << 12U; ++cuts) {
      std::set<std::size_t> places;
      for (std::size_t i = 0; i < 12; ++i) {
        if ((cuts >> i & 1U) != 0) places.insert(i + 1);
      }
      ArgumentWriter writer;
      ASSERT_EQ(write(elements, places, writer), whole);
    }
  }
}

TEST(ArgumentWriter, StreamsStringsAtOnceAndHoldsLiterals) {
  ArgumentWriter writer;
  std::string out;
  writer.begin_argument("a\"b", "string", out);
  EXPECT_EQ(out, R"({"a\"b":")");
  writer.append_value("x\n", out);
  EXPECT_EQ(out, R"({"a\"b":"x\n)");
  writer.end_element(out);
  writer.begin_argument("n", "number", out);
  writer.append_value("1", out);
  EXPECT_EQ(out, R"({"a\"b":"x\n","n":)");
  writer.append_value("2 ", out);
  EXPECT_TRUE(writer.element_open());
  writer.end_element(out);
  EXPECT_FALSE(writer.element_open());
  EXPECT_EQ(out, R"({"a\"b":"x\n","n":12)");
  writer.finish(out);
  EXPECT_EQ(out, R"({"a\"b":"x\n","n":12})");
  EXPECT_FALSE(writer.mixed());
  EXPECT_FALSE(writer.not_json());
}

TEST(ArgumentWriter, KeepsTheWhiteSpaceOfWhatIsNotJson) {
  ArgumentWriter writer;
  EXPECT_EQ(write({{"v", "number", " about 3\n", false}}, {}, writer), R"({"v":" about 3\n"})");
  EXPECT_TRUE(writer.not_json());
}

TEST(ArgumentWriter, TakesAMissingTypeForAString) {
  ArgumentWriter writer;
  EXPECT_EQ(write({{"v", "", "12", false}}, {}, writer), R"({"v":"12"})");
}

TEST(ArgumentWriter, ClosesWhatIsOpen) {
  ArgumentWriter writer;
  std::string out;
  writer.begin_argument("a", "string", out);
  writer.append_value("x", out);
  writer.begin_argument("b", "number", out);
  writer.append_value("1", out);
  writer.finish(out);
  EXPECT_EQ(out, R"({"a":"x","b":1})");
}

TEST(ArgumentWriter, GivesAnEmptyObjectForNothing) {
  ArgumentWriter none;
  std::string out;
  none.append_value("no element is open", out);
  none.finish(out);
  EXPECT_EQ(out, "{}");
  ArgumentWriter empty_block;
  EXPECT_EQ(write({{std::nullopt, "object", "", true}, {std::nullopt, "object", "{\"c\":3}", true}}, {},
                  empty_block),
            "{}");
  EXPECT_TRUE(empty_block.mixed());
}

TEST(ArgumentWriter, SurvivesDeepLiterals) {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  ArgumentWriter writer;
  EXPECT_EQ(write({{"v", "array", deep, false}}, {}, writer), "{\"v\":" + deep + "}");
}

}  // namespace
}  // namespace perigee
