// Where a reply's text ends up: the message as a whole and the deltas of the current push, kept equal here so
// that nobody else has to. Decides nothing.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/reply.h"

namespace perigee {

class ReplyOutput {
 public:
  explicit ReplyOutput(std::size_t calls_so_far) : calls_so_far_(calls_so_far) {}

  // Deltas go to the end of `deltas` from here on; those that are there already stay as they are.
  void stream_to(std::vector<ReplyDelta>& deltas);

  // Empty text does nothing.
  void reasoning(std::string_view text);
  void content(std::string_view text);

  // One call at a time. A call that is dropped was streamed as far as it came and is not in the message.
  void start_call(const std::string& name);
  void call_arguments(std::string_view json);
  void complete_call();
  void drop_call();

  // What was reasoning turned out to be the answer. Its deltas cannot be taken back.
  void move_reasoning_to_content();
  bool has_reasoning() const { return !reasoning_.empty(); }

  // Each note once, in the order of its first appearance.
  void note(std::string_view what);

  // The message; moves the text out.
  ReplyMessage take(bool finished);

 private:
  void stream(ReplyDelta::Kind kind, std::size_t call, std::string_view text);

  std::size_t calls_so_far_;
  std::vector<ReplyDelta>* deltas_ = nullptr;
  std::size_t first_delta_ = 0;
  std::string reasoning_;
  std::string content_;
  ReplyCall call_;
  std::vector<ReplyCall> calls_;
  std::vector<std::string> notes_;
};

}  // namespace perigee
