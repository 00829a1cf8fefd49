#include "text/reply_output.h"

#include <algorithm>
#include <utility>

namespace perigee {

void ReplyOutput::stream_to(std::vector<ReplyDelta>& deltas) {
  deltas_ = &deltas;
  first_delta_ = deltas.size();
}

// Neighbours of one kind in one push become one delta.
void ReplyOutput::stream(ReplyDelta::Kind kind, std::size_t call, std::string_view text) {
  if (deltas_->size() > first_delta_ && deltas_->back().kind == kind && deltas_->back().call == call) {
    deltas_->back().text += text;
    return;
  }
  deltas_->push_back({.kind = kind, .call = call, .text = std::string(text), .id = {}});
}

void ReplyOutput::reasoning(std::string_view text) {
  if (text.empty()) return;
  reasoning_ += text;
  stream(ReplyDelta::Kind::kReasoning, 0, text);
}

void ReplyOutput::content(std::string_view text) {
  if (text.empty()) return;
  content_ += text;
  stream(ReplyDelta::Kind::kContent, 0, text);
}

void ReplyOutput::start_call(const std::string& name) {
  call_ = {.id = name + "_" + std::to_string(calls_so_far_ + calls_.size()), .name = name, .arguments = {}};
  deltas_->push_back(
      {.kind = ReplyDelta::Kind::kCallStart, .call = calls_.size(), .text = name, .id = call_.id});
}

void ReplyOutput::call_arguments(std::string_view json) {
  if (json.empty()) return;
  call_.arguments += json;
  stream(ReplyDelta::Kind::kCallArguments, calls_.size(), json);
}

void ReplyOutput::complete_call() {
  calls_.push_back(std::exchange(call_, {}));
}

void ReplyOutput::drop_call() {
  call_ = {};
}

void ReplyOutput::move_reasoning_to_content() {
  content_.insert(0, reasoning_);
  reasoning_.clear();
}

void ReplyOutput::note(std::string_view what) {
  if (std::find(notes_.begin(), notes_.end(), what) == notes_.end()) notes_.emplace_back(what);
}

ReplyMessage ReplyOutput::take(bool finished) {
  ReplyMessage message;
  if (!reasoning_.empty()) message.reasoning = std::move(reasoning_);
  if (!content_.empty() || calls_.empty()) message.content = std::move(content_);
  message.finish = !finished        ? FinishReason::kLength
                   : calls_.empty() ? FinishReason::kStop
                                    : FinishReason::kToolCalls;
  message.calls = std::move(calls_);
  message.notes = std::move(notes_);
  return message;
}

}  // namespace perigee
