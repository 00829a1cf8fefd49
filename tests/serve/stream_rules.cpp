#include "serve/stream_rules.h"

#include <functional>
#include <map>
#include <set>

#include "serve/dialect_fixture.h"

namespace perigee::test {
namespace {

using nlohmann::json;
using Frames = std::vector<json>;

struct Stream {
  const RecordedExchange& exchange;
  std::string text;
  Frames frames;   // all
  Frames choices;  // choices[0] of those that have one
};

bool ends_well(const Stream& stream) {
  return stream.exchange.head.content_type.starts_with("text/event-stream") && stream.exchange.ended &&
         stream.text.ends_with("data: [DONE]\n\n");
}

bool first_frame(const Stream& stream) {
  return stream.choices[0]["delta"] == json{{"role", "assistant"}, {"content", ""}} &&
         stream.choices[0]["finish_reason"].is_null() && !stream.choices[0].contains("logprobs");
}

bool role_once(const Stream& stream) {
  for (std::size_t i = 1; i < stream.choices.size(); ++i) {
    if (stream.choices[i]["delta"].contains("role")) return false;
  }
  return true;
}

bool constant_fields(const Stream& stream) {
  for (const json& frame : stream.frames) {
    for (const char* key : {"id", "object", "created", "model"}) {
      if (!frame.contains(key) || frame[key] != stream.frames[0][key]) return false;
    }
  }
  return stream.frames[0]["object"] == "chat.completion.chunk" &&
         stream.frames[0]["created"].is_number_integer();
}

bool one_choice(const Stream& stream) {
  for (const json& frame : stream.frames) {
    const json& choices = frame["choices"];
    const bool usage_only = choices.empty() && frame.contains("usage");
    if (!usage_only && (choices.size() != 1 || choices[0]["index"] != 0)) return false;
  }
  return true;
}

bool one_kind_of_delta(const Stream& stream) {
  for (std::size_t i = 1; i + 1 < stream.choices.size(); ++i) {
    json delta = stream.choices[i]["delta"];
    delta.erase("internal_content");
    if (delta.size() != 1 || delta.begin()->is_null()) return false;
    if (!std::set<std::string>{"content", "reasoning_content", "tool_calls"}.contains(delta.begin().key()))
      return false;
  }
  return true;
}

bool end_frame(const Stream& stream) {
  const json& last = stream.choices.back();
  for (std::size_t i = 0; i + 1 < stream.choices.size(); ++i) {
    if (!stream.choices[i]["finish_reason"].is_null()) return false;
  }
  return last["delta"] == json::object() && last["finish_reason"].is_string() &&
         last["usage"]["total_tokens"].is_number_integer();
}

bool no_early_usage(const Stream& stream) {
  for (std::size_t i = 0; i + 1 < stream.choices.size(); ++i) {
    if (stream.choices[i].contains("usage")) return false;
  }
  for (const json& frame : stream.frames) {
    if (!frame["choices"].empty() && frame.contains("usage")) return false;
  }
  return true;
}

bool whole_characters(const Stream& stream) {
  return stream.text.find("\xEF\xBF\xBD") == std::string::npos &&
         stream.text.find("\\ud") == std::string::npos;
}

bool boundary(const Stream& stream) {
  std::size_t boundaries = 0;
  bool content = false;
  for (std::size_t i = 1; i < stream.choices.size(); ++i) {
    const json& delta = stream.choices[i]["delta"];
    if (delta.contains("reasoning_content")) {
      if (content) return false;
      if (delta["reasoning_content"] == "") ++boundaries;
    }
    if (delta.contains("content")) {
      if (boundaries != 1) return false;
      content = true;
    }
  }
  return boundaries == 1;
}

bool calls_begin(const Stream& stream) {
  std::size_t next = 0;
  for (const json& choice : stream.choices) {
    if (!choice["delta"].contains("tool_calls")) continue;
    const json& call = choice["delta"]["tool_calls"][0];
    if (!call.contains("id")) continue;
    if (call["index"] != next++ || call["type"] != "function" || call["function"]["arguments"] != "" ||
        call["function"].size() != 2 || call.size() != 4) {
      return false;
    }
  }
  return next > 0;
}

bool calls_go_on(const Stream& stream) {
  for (const json& choice : stream.choices) {
    if (!choice["delta"].contains("tool_calls")) continue;
    const json& call = choice["delta"]["tool_calls"][0];
    if (call.contains("id")) continue;
    if (call.size() != 2 || !call.contains("index") || call["function"].size() != 1) return false;
    if (!call["function"]["arguments"].is_string()) return false;
  }
  return true;
}

bool usage_frame(const Stream& stream) {
  const json& last = stream.frames.back();
  return last["choices"] == json::array() && last["usage"] == stream.choices.back()["usage"];
}

bool no_reasoning(const Stream& stream) {
  return stream.text.find("\"reasoning_content\"") == std::string::npos;
}

bool ids_in_increments(const Stream& stream) {
  for (std::size_t i = 1; i + 1 < stream.choices.size(); ++i) {
    const json& delta = stream.choices[i]["delta"];
    if (!delta.contains("internal_content")) return false;
    const json& ids = delta["internal_content"]["token_ids"];
    if (ids.empty()) return false;
    for (const json& id : ids) {
      if (!id.is_number_integer()) return false;
    }
  }
  return stream.choices.size() > 2;
}

const std::map<std::string, std::function<bool(const Stream&)>>& known_rules() {
  static const std::map<std::string, std::function<bool(const Stream&)>> rules = {
      {"content type text/event-stream, last event [DONE]", ends_well},
      {"first frame delta is {role: assistant, content: \"\"}", first_frame},
      {"role never again", role_once},
      {"id, object, created, model constant", constant_fields},
      {"exactly one choice a frame", one_choice},
      {"a delta holds one of content, reasoning_content, tool_calls, no null keys", one_kind_of_delta},
      {"end frame: delta {} with finish_reason and choices[0].usage", end_frame},
      {"no usage in earlier frames", no_early_usage},
      {"no U+FFFD, no lone surrogate", whole_characters},
      {"one boundary frame {reasoning_content: \"\"} before the first content frame", boundary},
      {"each call begins with {index, id, type, function: {name, arguments: \"\"}}, whole name", calls_begin},
      {"later call frames hold only index and function.arguments", calls_go_on},
      {"after the end frame one frame with choices [] and usage, same id and created", usage_frame},
      {"no reasoning_content key in any frame", no_reasoning},
      {"increment frames hold delta.internal_content.token_ids, non-empty integers", ids_in_increments},
  };
  return rules;
}

void join_call(const json& call, json& calls) {
  if (call.contains("id")) {
    calls.push_back({{"id", call["id"]}, {"name", call["function"]["name"]}, {"arguments", ""}});
  }
  json& arguments = calls[call["index"].get<std::size_t>()]["arguments"];
  arguments = arguments.get<std::string>() + call["function"]["arguments"].get<std::string>();
}

}  // namespace

JoinedStream check_stream(const RecordedExchange& exchange, const std::vector<std::string>& rules) {
  Stream stream{exchange, exchange.text(), events_of(exchange.text()), {}};
  for (const json& frame : stream.frames) {
    if (!frame["choices"].empty()) stream.choices.push_back(frame["choices"][0]);
  }
  JoinedStream joined;
  if (stream.choices.empty()) {
    joined.fault = "no frames: " + exchange.head.body;
    return joined;
  }
  for (const std::string& rule : rules) {
    const auto known = known_rules().find(rule);
    if (joined.fault.empty() && (known == known_rules().end() || !known->second(stream))) joined.fault = rule;
  }
  for (const json& choice : stream.choices) {
    const json& delta = choice["delta"];
    joined.content += delta.value("content", "");
    joined.reasoning += delta.value("reasoning_content", "");
    if (delta.contains("tool_calls")) join_call(delta["tool_calls"][0], joined.calls);
    if (choice["finish_reason"].is_string()) joined.finish_reason = choice["finish_reason"];
  }
  return joined;
}

}  // namespace perigee::test
