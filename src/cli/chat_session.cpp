#include "cli/chat_session.h"

#include <algorithm>

#include "cli/reply_json.h"
#include "text/prompt.h"

namespace perigee {
namespace {

using Json = nlohmann::ordered_json;

// Snapshots never leave this process, which has one model.
constexpr const char* kFingerprint = "chat";

Message text_message(Role role, const std::string& text) {
  Message message;
  message.role = role;
  if (!text.empty()) message.content.push_back({text, std::nullopt});
  return message;
}

bool is_proper_prefix(std::span<const TokenId> prefix, std::span<const TokenId> ids) {
  return !prefix.empty() && prefix.size() < ids.size() &&
         std::equal(prefix.begin(), prefix.end(), ids.begin());
}

}  // namespace

ChatSession::ChatSession(const OpenModel& model, const Tokenizer& tokenizer, GenerationOptions options)
    : model_(model), tokenizer_(tokenizer), options_(std::move(options)) {
  conversation_.effort = Effort::kMax;  // as servers of K3 do
}

void ChatSession::set_tools(const std::string& tools_json, std::vector<std::string> names) {
  conversation_.tools_json = tools_json;
  conversation_.tool_names = std::move(names);
}

void ChatSession::reset() {
  conversation_.messages.clear();
  messages_ = Json::array();
  calls_ = 0;
  kept_.reset();
  after_prompt_.reset();
  if (!system_.empty()) add(text_message(Role::kSystem, system_), {{"role", "system"}, {"content", system_}});
  answered_ = conversation_.messages.size();
}

void ChatSession::add(Message message, Json json) {
  conversation_.messages.push_back(std::move(message));
  messages_.push_back(std::move(json));
}

void ChatSession::add_user(const std::string& text) {
  add(text_message(Role::kUser, text), {{"role", "user"}, {"content", text}});
}

void ChatSession::add_result(const ReplyCall& call, const std::string& text) {
  Message message = text_message(Role::kTool, text);
  message.call_id = call.id;
  message.tool = call.name;
  add(std::move(message), {{"role", "tool"}, {"tool_call_id", call.id}, {"content", text}});
}

void ChatSession::add_reply(const ReplyMessage& reply) {
  Message message = text_message(Role::kAssistant, reply.content.value_or(""));
  message.reasoning = reply.reasoning.value_or("");
  for (const ReplyCall& call : reply.calls)
    message.calls.push_back({call.id, call.name, arguments_from_text(call.arguments)});
  calls_ += reply.calls.size();
  Json json = reply_message_json(reply);
  if (reply.calls.empty()) json.erase("tool_calls");
  add(std::move(message), std::move(json));
  answered_ = conversation_.messages.size();
}

std::optional<SequenceState> ChatSession::state_for(const std::vector<TokenId>& prompt) {
  std::optional<SequenceState> state;
  if (kept_ && is_proper_prefix(std::span(kept_ids_).first(kept_->position), prompt)) {
    state = std::move(kept_);
  } else if (after_prompt_ && is_proper_prefix(after_prompt_->ids, prompt)) {
    state = restore_snapshot(*after_prompt_, model_.config(), after_prompt_->ids, kFingerprint);
  }
  kept_.reset();
  return state;
}

Reply ChatSession::try_answer(const std::function<void(std::span<const ReplyDelta>)>& on_deltas,
                              const CancelToken& cancel) {
  ReplyTask task;
  std::vector<TokenId> prompt = PromptEncoder(tokenizer_).encode(build_prompt(conversation_)).ids;
  task.generation.begin = state_for(prompt);
  task.generation.prompt = prompt;
  task.tools_allowed = !conversation_.tool_names.empty();
  task.calls_so_far = calls_;
  task.on_deltas = on_deltas;
  task.on_prompt = [&](const SequenceState& state, std::size_t done, std::size_t total) {
    if (done == total) after_prompt_ = take_snapshot(state, prompt, kFingerprint);
  };
  return generate_reply(model_, tokenizer_, options_, std::move(task), cancel);
}

Reply ChatSession::answer(const std::function<void(std::span<const ReplyDelta>)>& on_deltas,
                          const CancelToken& cancel) {
  try {
    Reply reply = try_answer(on_deltas, cancel);
    kept_ids_ = reply.generation.ids;
    kept_ = std::move(reply.generation.state);
    add_reply(reply.message);
    return reply;
  } catch (...) {
    conversation_.messages.resize(answered_);
    messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(answered_), messages_.end());
    throw;
  }
}

Json ChatSession::request_json() const {
  Json request = {{"messages", messages_},
                  {"thinking", {{"type", conversation_.thinking ? "enabled" : "disabled"}}}};
  if (conversation_.thinking && conversation_.effort)
    request["thinking_effort"] = effort_name(*conversation_.effort);
  if (!conversation_.tools_json.empty()) request["tools"] = Json::parse(conversation_.tools_json);
  return request;
}

}  // namespace perigee
