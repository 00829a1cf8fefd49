#include "serve/anthropic_json.h"

namespace perigee {
namespace {

const char* stop_reason(const MessageFacts& facts, const ReplyMessage& message) {
  if (message.stop_string) return "stop_sequence";
  switch (message.finish) {
    case FinishReason::kStop:
      return "end_turn";
    case FinishReason::kToolCalls:
      return "tool_use";
    case FinishReason::kLength:
      return facts.fills_context ? "model_context_window_exceeded" : "max_tokens";
  }
  return "";
}

}  // namespace

Json stop_json(const MessageFacts& facts, const ReplyMessage* ended) {
  Json json = {{"stop_reason", nullptr}, {"stop_sequence", nullptr}};
  if (ended == nullptr) return json;
  json["stop_reason"] = stop_reason(facts, *ended);
  if (ended->stop_string) json["stop_sequence"] = *ended->stop_string;
  return json;
}

Json message_usage_json(const ReplyUsage& usage) {
  return {{"input_tokens", usage.prompt_tokens - usage.cached_tokens},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", usage.cached_tokens},
          {"output_tokens", usage.completion_tokens}};
}

Json message_json(const MessageFacts& facts, const ReplyMessage* ended, const ReplyUsage& usage) {
  Json json = {{"id", facts.id},
               {"type", "message"},
               {"role", "assistant"},
               {"model", facts.model},
               {"content", Json::array()}};
  json.update(stop_json(facts, ended));
  json["usage"] = message_usage_json(usage);
  return json;
}

Json thinking_block(const std::string& thinking, const std::string& signature) {
  return {{"type", "thinking"}, {"thinking", thinking}, {"signature", signature}};
}

Json text_block(const std::string& text) {
  return {{"type", "text"}, {"text", text}};
}

Json tool_use_block(const std::string& name) {
  return {{"type", "tool_use"}, {"id", new_answer_id("toolu_")}, {"name", name}, {"input", Json::object()}};
}

}  // namespace perigee
