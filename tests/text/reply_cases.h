// The committed replies (tests/data/text/chat/reply_parser.json) and what they must become. For tests only.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "support/paths.h"
#include "text/reply_run.h"

namespace perigee::test {

struct ReplyCase {
  std::string name;
  std::string text;
  ReplyOptions options;
  EndedBy ended_by = EndedBy::kStop;
  std::vector<TokenId> ids;
  nlohmann::json expected;  // the message
  nlohmann::json streamed;  // null where it equals the message
  std::vector<std::string> notes;
  nlohmann::json unfinished_call;  // null: none
  bool marker_text_in_output = false;

  // Other vocabularies have other ids for this reply; they can be had from its text unless it holds what
  // text cannot say: markers in ordinary tokens, parts of characters, ids that do not exist.
  bool text_says_everything() const {
    return !marker_text_in_output && text.find("\xEF\xBF\xBD") == std::string::npos &&
           std::find(notes.begin(), notes.end(), "unknown_id") == notes.end();
  }
};

inline Channel channel_of(const std::string& name) {
  return name == "think" ? Channel::kThink : name == "response" ? Channel::kResponse : Channel::kIdle;
}

inline ReplyCase reply_case(const nlohmann::json& json) {
  ReplyCase one;
  one.name = json.at("name");
  one.text = json.value("text", "");
  one.options.start = channel_of(json.at("start"));
  one.options.tools_allowed = json.value("tools_allowed", true);
  one.options.calls_so_far = json.value("calls_so_far", 0U);
  one.options.stop = json.value("stop", std::vector<std::string>());
  one.ended_by = json.at("ended_by") == "max_tokens" ? EndedBy::kMaxTokens : EndedBy::kStop;
  one.ids = json.at("ids").get<std::vector<TokenId>>();
  one.expected = json.value("expected", nlohmann::json());
  one.streamed = json.value("streamed", nlohmann::json());
  one.notes = json.value("notes", std::vector<std::string>());
  one.unfinished_call = json.value("unfinished_call", nlohmann::json());
  one.marker_text_in_output = json.value("marker_text_in_output", false);
  return one;
}

inline nlohmann::json reply_golden(const std::string& file) {
  return nlohmann::json::parse(read_small_file(data_folder() / "text/chat" / file, 10'000'000));
}

inline std::vector<ReplyCase> reply_cases(const std::string& file = "reply_parser.json") {
  std::vector<ReplyCase> cases;
  const nlohmann::json golden = reply_golden(file);
  for (const nlohmann::json& json : golden.at("cases")) cases.push_back(reply_case(json));
  return cases;
}

inline nlohmann::json calls_json(const std::vector<ReplyCall>& calls) {
  nlohmann::json json = nlohmann::json::array();
  for (const ReplyCall& call : calls)
    json.push_back({{"id", call.id}, {"name", call.name}, {"arguments", call.arguments}});
  return json;
}

inline nlohmann::json message_json(const ReplyMessage& message) {
  const auto optional = [](const std::optional<std::string>& text) {
    return text ? nlohmann::json(*text) : nlohmann::json();
  };
  return {{"reasoning_content", optional(message.reasoning)},
          {"content", optional(message.content)},
          {"tool_calls", calls_json(message.calls)},
          {"finish_reason", finish_reason_name(message.finish)}};
}

}  // namespace perigee::test
