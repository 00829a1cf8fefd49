#include "text/arguments.h"

#include <gtest/gtest.h>

#include "text/argument_writer.h"
#include "text/json_files.h"

namespace perigee {
namespace {

std::string tag(std::string_view kind, std::string_view content) {
  return std::string("<|").append(kind).append("|>").append(content).append("<|sep|>");
}

std::string attribute(std::string_view name, std::string_view value) {
  std::string escaped;
  for (const char c : value) {
    c == '&' ? escaped += "&amp;" : c == '"' ? escaped += "&quot;" : escaped += c;
  }
  return std::string(" ").append(name).append("=\"").append(escaped).append("\"");
}

CallArguments arguments_of(const JsonNode& holder) {
  const JsonNode* arguments = holder.find("arguments");
  if (arguments == nullptr || arguments->is(JsonKind::kNull)) return {};
  return arguments->is(JsonKind::kObject) ? arguments_from_object(*arguments)
                                          : arguments_from_text(arguments->text);
}

std::string elements(const CallArguments& arguments) {
  if (arguments.raw) {
    return tag("open", "json" + attribute("type", "object")) + *arguments.raw + tag("close", "json");
  }
  std::string text;
  for (const Argument& argument : arguments.members) {
    text += tag("open", "argument" + attribute("key", argument.key) +
                            attribute("type", json_kind_name(argument.type)));
    text += argument.value + tag("close", "argument");
  }
  return text;
}

std::string read_back(const CallArguments& arguments) {
  ArgumentWriter writer;
  std::string out;
  if (arguments.raw) {
    writer.begin_raw(out);
    writer.append_value(*arguments.raw, out);
  }
  for (const Argument& argument : arguments.members) {
    writer.begin_argument(argument.key, json_kind_name(argument.type), out);
    writer.append_value(argument.value, out);
    writer.end_element(out);
  }
  writer.finish(out);
  return out;
}

const JsonNode& holder_of(const JsonNode& call) {
  const JsonNode* function = call.find("function");
  return function == nullptr ? call : *function;
}

TEST(Arguments, BecomeTheElementsOfTheReleasedEncoder) {
  for (const auto& c : test::read_text_data("chat/tool_codec.json", "calls")) {
    SCOPED_TRACE(c.at("name"));
    const JsonTree tree = JsonTree::parse(c.at("tool_calls"), "tool_calls");
    std::string text;
    for (std::size_t i = 0; i < tree.root().items.size(); ++i) {
      const JsonNode& holder = holder_of(tree.root().items[i]);
      text += tag("open", "call" + attribute("tool", holder.find("name")->text) +
                              attribute("index", std::to_string(i + 1)));
      text += elements(arguments_of(holder)) + tag("close", "call");
    }
    EXPECT_EQ(tag("open", "tools") + text + tag("close", "tools"), c.at("text"));
  }
}

TEST(Arguments, AreReadBackFromTheirElements) {
  for (const auto& c : test::read_text_data("chat/tool_codec.json", "calls")) {
    SCOPED_TRACE(c.at("name"));
    const JsonTree tree = JsonTree::parse(c.at("tool_calls"), "tool_calls");
    std::vector<std::string> decoded;
    for (const JsonNode& call : tree.root().items) {
      decoded.push_back(read_back(arguments_of(holder_of(call))));
    }
    EXPECT_EQ(decoded, c.at("decoded_arguments"));
  }
}

TEST(Arguments, AgreeWithPythonsReaderOnAnyText) {
  for (const auto& c : test::read_text_data("json_vectors.json", "arguments")) {
    const std::string text = c.at("text");
    SCOPED_TRACE(text);
    const CallArguments arguments = arguments_from_text(text);
    ASSERT_EQ(arguments.raw.has_value(), c.contains("raw"));
    if (arguments.raw) {
      EXPECT_EQ(*arguments.raw, text);
      EXPECT_TRUE(arguments.members.empty());
      continue;
    }
    nlohmann::json members = nlohmann::json::array();
    for (const Argument& member : arguments.members) {
      members.push_back({member.key, json_kind_name(member.type), member.value});
    }
    EXPECT_EQ(members, c.at("members"));
  }
}

TEST(Arguments, NestedValuesMayBeAsDeepAsTheyLike) {
  constexpr std::size_t kLevels = 200000;
  const std::string value = std::string(kLevels, '[') + std::string(kLevels, ']');
  const CallArguments arguments = arguments_from_text("{\"a\":" + value + ",\"b\":1}");
  ASSERT_EQ(arguments.members.size(), 2U);
  EXPECT_EQ(arguments.members[0].value, value);
  EXPECT_EQ(arguments_from_text("{\"a\":" + value.substr(1)).raw, "{\"a\":" + value.substr(1));
}

TEST(Arguments, OfAnObjectAreADictsMembers) {
  const JsonTree tree = JsonTree::parse(R"({"b":-0,"a":"x","b":[1,{"k":1,"l":2,"k":3}],"c":1E400})", "test");
  const CallArguments arguments = arguments_from_object(tree.root());
  ASSERT_EQ(arguments.members.size(), 3U);
  EXPECT_EQ(arguments.members[0].key, "b");
  EXPECT_EQ(arguments.members[0].type, JsonKind::kArray);
  EXPECT_EQ(arguments.members[0].value, R"([1, {"k": 3, "l": 2}])");
  EXPECT_EQ(arguments.members[1].value, "x");
  EXPECT_EQ(arguments.members[2].value, "Infinity");
}

}  // namespace
}  // namespace perigee
