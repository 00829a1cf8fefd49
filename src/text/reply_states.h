// What the tags and texts of a reply mean: the state machine of docs/chat-format.md, "Replies". Knows no ids.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "text/reply_call.h"
#include "text/reply_lexer.h"
#include "text/reply_output.h"
#include "text/reply_text.h"
#include "text/stop_strings.h"

namespace perigee {

class ReplyStates final : public ReplyEvents {
 public:
  enum class Place : std::uint8_t { kThink, kIdle, kResponse, kEpilogue, kTools, kCall, kDone };

  // Keeps a reference to `output`.
  ReplyStates(Channel start, bool tools_allowed, std::span<const std::string> stop, ReplyOutput& output);

  void text(std::string_view bytes) override;
  void tag(const ReplyTag& tag) override;
  void end() override;
  void note(std::string_view what) override { output_.note(what); }

  // Generation was cut off here. No further events.
  void cut();

  bool done() const { return place_ == Place::kDone; }
  const std::optional<std::string>& stop_string() const { return stop_.matched(); }

 private:
  bool hidden() const;
  void note_if_shown(std::string_view what);

  void show(std::string_view characters);
  void close_channel();
  void end_channel();
  void end_content();

  void move(Place to, const ReplyTag& tag);
  void note_move(Place to, const ReplyTag& tag);

  void start_call(const ReplyTag& tag);
  void tag_in_call(const ReplyTag& tag);
  void element_tag(const ReplyTag& tag);
  void end_value();
  void end_call(bool closed);

  ReplyOutput& output_;
  ReplyCallReader call_;
  StopStrings stop_;
  ReplyText channel_;  // of kThink, kIdle and kResponse
  Place place_;
  bool tools_allowed_;
  bool think_tag_seen_ = false;
  bool response_seen_ = false;
  std::string characters_;  // of one step
  std::string content_;     // of one step, behind the stop strings
};

}  // namespace perigee
