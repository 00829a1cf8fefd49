// A conversation that goes on: its messages, and the model's state after the last of them, so that a turn
// costs only what is new. Prints nothing.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/generation.h"
#include "engine/snapshot.h"
#include "text/conversation.h"

namespace perigee {

class ChatSession {
 public:
  // Keeps references to model and tokenizer.
  ChatSession(const OpenModel& model, const Tokenizer& tokenizer, GenerationOptions options);

  void set_system(const std::string& text) { system_ = text; }  // of the next reset()
  void set_effort(Effort effort) { conversation_.effort = effort; }
  void set_thinking(bool on) { conversation_.thinking = on; }
  void set_tools(const std::string& tools_json, std::vector<std::string> names);
  void reset();

  void add_user(const std::string& text);
  void add_result(const ReplyCall& call, const std::string& text);
  // Answers what was added. The answer, whole or interrupted, joins the conversation; if it fails, all that
  // was added since the last answer is taken back and the error thrown.
  Reply answer(const std::function<void(std::span<const ReplyDelta>)>& on_deltas, const CancelToken& cancel);

  // A request in OpenAI's shape, as `perigee run --messages` reads it.
  nlohmann::ordered_json request_json() const;

 private:
  void add(Message message, nlohmann::ordered_json json);
  Reply try_answer(const std::function<void(std::span<const ReplyDelta>)>& on_deltas,
                   const CancelToken& cancel);
  std::optional<SequenceState> state_for(const std::vector<TokenId>& prompt);
  void add_reply(const ReplyMessage& reply);

  const OpenModel& model_;
  const Tokenizer& tokenizer_;
  GenerationOptions options_;
  Conversation conversation_;
  std::string system_;
  nlohmann::ordered_json messages_ = nlohmann::ordered_json::array();  // as sent and received
  std::size_t answered_ = 0;                                           // messages up to the last answer
  std::size_t calls_ = 0;
  // After the last answer; it serves if the new prompt repeats the generated ids exactly.
  std::vector<TokenId> kept_ids_;
  std::optional<SequenceState> kept_;
  // After the last prompt; it serves if the answer's text gives other ids than were generated.
  std::optional<Snapshot> after_prompt_;
};

}  // namespace perigee
