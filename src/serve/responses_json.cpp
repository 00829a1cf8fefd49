#include "serve/responses_json.h"

#include "serve/openai_json.h"
#include "text/json_write.h"

namespace perigee {
namespace {

constexpr std::string_view kSeal = "perigee-reasoning:";

const char* status_name(ItemStatus status) {
  switch (status) {
    case ItemStatus::kInProgress:
      return "in_progress";
    case ItemStatus::kCompleted:
      return "completed";
    case ItemStatus::kIncomplete:
      return "incomplete";
  }
  return "";
}

Json content_json(const ResponseItem& item, ItemStatus status) {
  Json content = Json::array();
  if (status != ItemStatus::kInProgress) content.push_back(part_json(item, item.text));
  return content;
}

Json usage_of(const ReplyUsage& usage) {
  return {{"input_tokens", usage.prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}, {"cache_write_tokens", 0}}},
          {"output_tokens", usage.completion_tokens},
          {"output_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

}  // namespace

// Recursion ends at JsonTree::kMaxDepth.
Json json_of(const JsonNode& node) {
  switch (node.kind) {
    case JsonKind::kNull:
      break;
    case JsonKind::kBoolean:
      return node.is_true();
    case JsonKind::kNumber: {
      Json number = Json::parse(node.literal, nullptr, false);
      return number.is_discarded() ? Json() : number;
    }
    case JsonKind::kString:
      return node.text;
    case JsonKind::kArray: {
      Json array = Json::array();
      for (const JsonNode& item : node.items) array.push_back(json_of(item));
      return array;
    }
    case JsonKind::kObject: {
      Json object = Json::object();
      // The members differ, so none has to be looked for.
      auto& members = object.get_ref<Json::object_t&>();
      for (const DictMember& member : dict_members(node)) {
        members.emplace_back(std::string(member.key), json_of(*member.value));
      }
      return object;
    }
  }
  return {};
}

ResponseItem new_reasoning_item() {
  return {.kind = ResponseItem::Kind::kReasoning,
          .id = new_answer_id("rs_"),
          .text = {},
          .name = {},
          .call_id = {}};
}

ResponseItem new_message_item() {
  return {.kind = ResponseItem::Kind::kMessage,
          .id = new_answer_id("msg_"),
          .text = {},
          .name = {},
          .call_id = {}};
}

ResponseItem new_call_item(std::string name, std::string call_id) {
  return {.kind = ResponseItem::Kind::kCall,
          .id = new_answer_id("fc_"),
          .text = {},
          .name = std::move(name),
          .call_id = std::move(call_id)};
}

Json item_json(const ResponseItem& item, ItemStatus status, bool sealed) {
  Json json = {{"id", item.id}};
  switch (item.kind) {
    case ResponseItem::Kind::kReasoning:
      json["type"] = "reasoning";
      json["summary"] = Json::array();
      json["content"] = content_json(item, status);
      if (sealed) json["encrypted_content"] = sealed_reasoning(item.text);
      break;
    case ResponseItem::Kind::kMessage:
      json["type"] = "message";
      json["role"] = "assistant";
      json["content"] = content_json(item, status);
      break;
    case ResponseItem::Kind::kCall:
      json["type"] = "function_call";
      json["call_id"] = item.call_id;
      json["name"] = item.name;
      json["arguments"] = item.text;
      break;
  }
  json["status"] = status_name(status);
  return json;
}

Json part_json(const ResponseItem& item, const std::string& text) {
  if (item.kind == ResponseItem::Kind::kReasoning) return {{"type", "reasoning_text"}, {"text", text}};
  return {
      {"type", "output_text"}, {"text", text}, {"annotations", Json::array()}, {"logprobs", Json::array()}};
}

std::string sealed_reasoning(const std::string& text) {
  return std::string(kSeal) + text;
}

std::string opened_reasoning(std::string_view sealed) {
  return sealed.starts_with(kSeal) ? std::string(sealed.substr(kSeal.size())) : std::string();
}

bool shows_message(const ReplyMessage& message) {
  if (message.content && !message.content->empty()) return true;
  return message.calls.empty() && message.finish == FinishReason::kStop;
}

void end_response(Json& response, Json output, const ReplyMessage& message, const ReplyUsage& usage) {
  const bool cut = message.finish == FinishReason::kLength;
  response["status"] = cut ? "incomplete" : "completed";
  if (cut) {
    response["incomplete_details"] = {{"reason", "max_output_tokens"}};
  } else {
    response["completed_at"] = unix_seconds();
  }
  response["output"] = std::move(output);
  response["usage"] = usage_of(usage);
}

}  // namespace perigee
