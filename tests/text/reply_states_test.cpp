// Every cell of the table of docs/chat-format.md, "Replies", found out from outside: where the parser is
// shows in what becomes of the ids that come next.
#include "text/reply_states.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "support/vocabularies.h"
#include "text/reply_parser.h"

namespace perigee {
namespace {

std::vector<ReplyDelta> push(ReplyParser& parser, const std::string& text) {
  std::vector<ReplyDelta> deltas;
  parser.push(test::nano_tokenizer().encode_markup(text), deltas);
  return deltas;
}

bool adds(ReplyParser& parser, const std::string& text, ReplyDelta::Kind kind) {
  const std::vector<ReplyDelta> deltas = push(parser, text);
  return !deltas.empty() && deltas.back().kind == kind;
}

std::string tag(bool opens, const std::string& header) {
  return (opens ? "<|open|>" : "<|close|>") + header + "<|sep|>";
}

// Uses the parser up.
std::string place_of(ReplyParser& parser) {
  if (parser.done()) return "done";
  const std::vector<ReplyDelta> text = push(parser, "x");
  if (!text.empty() && text[0].kind == ReplyDelta::Kind::kReasoning) return "think";
  if (!text.empty()) {  // content; only before a response can a thought begin
    return adds(parser, tag(true, "think") + "y", ReplyDelta::Kind::kReasoning) ? "idle" : "response";
  }
  if (adds(parser, tag(true, "argument key=\"k\"") + "v", ReplyDelta::Kind::kCallArguments)) return "call";
  return adds(parser, tag(true, "call tool=\"p\""), ReplyDelta::Kind::kCallStart) ? "tools" : "after";
}

const std::string kAnswered = tag(false, "think") + tag(true, "response") + tag(false, "response");

const std::map<std::string, std::string> kWayTo = {
    {"think", ""},
    {"idle", tag(false, "think")},
    {"response", tag(false, "think") + tag(true, "response")},
    {"after", kAnswered},
    {"tools", kAnswered + tag(true, "tools")},
    {"call", kAnswered + tag(true, "tools") + tag(true, "call tool=\"f\"")},
};

std::string place_after(const std::string& from, const std::string& tag) {
  ReplyParser parser(test::nano_tokenizer(), {});
  push(parser, kWayTo.at(from) + tag);
  return place_of(parser);
}

TEST(ReplyStates, AreWhereTheTestBelievesThemToBe) {
  for (const auto& [place, way] : kWayTo) EXPECT_EQ(place_after(place, ""), place);
}

TEST(ReplyStates, FollowTheTable) {
  const std::vector<std::string> tags = {tag(true, "think"),
                                         tag(false, "think"),
                                         tag(true, "response"),
                                         tag(false, "response"),
                                         tag(true, "tools"),
                                         tag(false, "tools"),
                                         tag(true, "call tool=\"g\""),
                                         tag(false, "call"),
                                         tag(false, "message"),
                                         "<|end_of_msg|>",
                                         "[EOS]"};
  const std::map<std::string, std::vector<std::string>> table = {
      {"think", {"", "idle", "response", "after", "tools", "", "", "", "done", "done", "done"}},
      {"idle", {"think", "", "response", "after", "tools", "", "", "", "done", "done", "done"}},
      {"response", {"", "", "", "after", "tools", "", "", "", "done", "done", "done"}},
      {"after", {"", "", "response", "", "tools", "", "", "", "done", "done", "done"}},
      {"tools", {"", "", "response", "", "", "after", "call", "", "done", "done", "done"}},
      {"call", {"", "", "", "", "", "after", "call", "tools", "done", "done", "done"}},
  };
  for (const auto& [from, row] : table) {
    ASSERT_EQ(row.size(), tags.size());
    for (std::size_t i = 0; i < tags.size(); ++i)
      EXPECT_EQ(place_after(from, tags[i]), row[i].empty() ? from : row[i]) << from << " " << tags[i];
  }
}

TEST(ReplyStates, StayWhereTheyAreForEveryOtherTag) {
  for (const auto& [from, way] : kWayTo)
    for (const bool opens : {true, false})
      for (const char* header : {"note", "", "RESPONSE", "argument", "json"}) {
        if (from == "call" && opens && tag_name(header) != TagName::kUnknown) continue;  // begins a value
        EXPECT_EQ(place_after(from, tag(opens, header)), from) << from << " " << opens << header;
      }
  for (const auto& [from, way] : kWayTo)
    EXPECT_EQ(place_after(from, tag(true, "message role=\"assistant\"")), from);
}

// A value ends with any of these, and then they do what they always do.
TEST(ReplyStates, EndAnOpenValueWhereTheCallGoesOnOrEnds) {
  const std::string value = tag(true, "argument key=\"a\" type=\"string\"") + "v";
  const std::map<std::string, std::string> expected = {
      {tag(false, "argument"), R"({"a":"v")"},
      {tag(false, "json"), R"({"a":"v")"},
      {tag(true, "argument key=\"b\" type=\"number\""), R"({"a":"v","b":)"},
      {tag(true, "json"), R"({"a":"v")"},
      {tag(false, "call"), R"({"a":"v"})"},
      {tag(false, "tools"), R"({"a":"v"})"},
      {tag(false, "message"), R"({"a":"v)"},
      {tag(false, "response"), R"({"a":"v)"},
      {tag(true, "tools"), R"({"a":"v)"},
      {tag(false, "think"), R"({"a":"v)"},
  };
  for (const auto& [end, arguments] : expected) {
    ReplyParser parser(test::nano_tokenizer(), {});
    std::string streamed;
    for (const ReplyDelta& delta : push(parser, kWayTo.at("call") + value + end))
      if (delta.kind == ReplyDelta::Kind::kCallArguments) streamed += delta.text;
    EXPECT_EQ(streamed, arguments) << end;
  }
}

}  // namespace
}  // namespace perigee
