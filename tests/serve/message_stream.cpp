#include "serve/message_stream.h"

#include <map>

namespace perigee::test {
namespace {

using nlohmann::json;

// Which delta belongs into which block, and what it adds to.
struct DeltaKind {
  const char* block;
  const char* from;
  const char* to;
};
const std::map<std::string, DeltaKind> kDeltas = {
    {"thinking_delta", {"thinking", "thinking", "thinking"}},
    {"signature_delta", {"thinking", "signature", "signature"}},
    {"text_delta", {"text", "text", "text"}},
    {"input_json_delta", {"tool_use", "partial_json", "input"}},
};

const json& empty_block(const std::string& type, const json& block) {
  static json expected;
  expected = {{"type", type}};
  if (type == "thinking") expected.update({{"thinking", ""}, {"signature", ""}});
  if (type == "text") expected["text"] = "";
  if (type == "tool_use") {
    expected.update({{"id", block.value("id", "")}, {"name", block.value("name", "")}});
    expected["input"] = json::object();
  }
  return expected;
}

class Joiner {
 public:
  void event(const std::string& name, const json& data) {
    if (data.value("type", "") != name) return fault("the event's name is its data's type");
    if (ended_) return fault("nothing behind the end");
    if (name == "ping") return started_ ? void() : fault("message_start is first");
    if (name == "error") return error(data);
    if (started_ == (name == "message_start")) return fault("message_start is first and once");
    if (name == "message_start") return start(data);
    if (name == "content_block_start") return open(data);
    if (name == "content_block_delta") return delta(data);
    if (name == "content_block_stop") return close(data);
    if (name == "message_delta") return message_delta(data);
    if (name == "message_stop") return stop();
    fault("a known event: " + name);
  }

  JoinedMessage take(bool finished) {
    if (!ended_ || !finished) fault("the stream ends with message_stop or an error");
    return std::move(joined_);
  }

 private:
  void fault(const std::string& rule) {
    if (joined_.fault.empty()) joined_.fault = rule;
  }

  void note(const std::string& step, bool may_repeat = false) {
    if (!may_repeat || joined_.order.back() != step) joined_.order.push_back(step);
  }

  void start(const json& data) {
    started_ = true;
    note("message_start");
    joined_.message = data.at("message");
    const json& message = joined_.message;
    if (message["content"] != json::array() || !message["stop_reason"].is_null() ||
        !message["stop_sequence"].is_null() || message["role"] != "assistant" ||
        message["type"] != "message" || message["usage"]["output_tokens"] != 0) {
      fault("the message begins empty");
    }
  }

  void open(const json& data) {
    if (open_ || !joined_.end.is_null()) return fault("one block at a time, before the end");
    if (data.at("index") != joined_.content.size()) return fault("blocks are counted");
    json block = data.at("content_block");
    const std::string type = block.at("type");
    if (block != empty_block(type, block)) fault("blocks begin empty");
    note("content_block_start " + type);
    if (type == "tool_use") block["input"] = "";
    joined_.content.push_back(std::move(block));
    open_ = true;
  }

  void delta(const json& data) {
    const std::string type = data.at("delta").at("type");
    const auto kind = kDeltas.find(type);
    if (!open_ || data.at("index") != joined_.content.size() - 1)
      return fault("deltas are of the open block");
    json& block = joined_.content.back();
    if (kind == kDeltas.end() || block["type"] != kind->second.block)
      return fault("a delta of the block's kind");
    if (data["delta"].size() != 2) fault("a delta holds one piece");
    const std::string piece = data["delta"].at(kind->second.from);
    if (piece.empty()) fault("no empty pieces");
    if (block["type"] == "thinking" && type != "signature_delta" && block["signature"] != "") {
      fault("the signature is last");
    }
    block[kind->second.to] = block[kind->second.to].get<std::string>() + piece;
    if (type != "signature_delta") note("content_block_delta " + type, true);
  }

  void close(const json& data) {
    if (!open_ || data.at("index") != joined_.content.size() - 1) return fault("the open block is closed");
    if (joined_.content.back()["type"] == "thinking" && joined_.content.back()["signature"] == "") {
      fault("a thought is signed");
    }
    note("content_block_stop");
    open_ = false;
  }

  void message_delta(const json& data) {
    if (open_ || !joined_.end.is_null()) return fault("one message_delta behind all blocks");
    note("message_delta");
    joined_.end = data;
    if (!data["delta"]["stop_reason"].is_string()) fault("a reason to stop");
    if (!data["usage"]["output_tokens"].is_number_integer()) fault("usage at the end");
  }

  void stop() {
    if (joined_.end.is_null()) fault("message_delta before message_stop");
    note("message_stop");
    ended_ = true;
  }

  void error(const json& data) {
    joined_.error = data.at("error");
    ended_ = true;
  }

  JoinedMessage joined_;
  bool started_ = false;
  bool open_ = false;
  bool ended_ = false;
};

}  // namespace

JoinedMessage check_message_stream(const RecordedExchange& exchange) {
  Joiner joiner;
  const std::string stream = exchange.text();
  std::size_t at = 0;
  while (at < stream.size()) {
    const std::size_t end = stream.find("\n\n", at);
    const std::size_t line = stream.find('\n', at);
    const std::string name = stream.substr(at, line - at);
    const std::string data = stream.substr(line + 1, end - line - 1);
    if (end == std::string::npos || !name.starts_with("event: ") || !data.starts_with("data: ")) {
      JoinedMessage broken;
      broken.fault = "an event is a line with its name and a line with its data";
      return broken;
    }
    joiner.event(name.substr(7), json::parse(data.substr(6)));
    at = end + 2;
  }
  JoinedMessage joined = joiner.take(exchange.ended);
  const bool typed = exchange.head.content_type.starts_with("text/event-stream");
  if (!typed && joined.fault.empty()) joined.fault = "content type text/event-stream";
  return joined;
}

}  // namespace perigee::test
