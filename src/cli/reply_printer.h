// A reply on standard output while it is being made: content as it is, thinking dimmed or left out, a tool
// call as a line. Control characters of a model never reach a terminal.
#pragma once

#include <span>
#include <string_view>

#include "text/reply.h"

namespace perigee {

class ReplyPrinter {
 public:
  struct Style {
    bool terminal = false;  // escape what would act on a terminal
    bool colours = false;   // dim the thinking
    bool thinking = false;  // show it at all
  };
  explicit ReplyPrinter(Style style) : style_(style) {}

  // Everything is on its way to the reader when this returns.
  void print(std::span<const ReplyDelta> deltas);
  // Ends the last line.
  void finish();

 private:
  enum class Section { kNone, kThinking, kContent, kCall };
  void enter(Section section);
  void leave();
  void write(std::string_view text);

  Style style_;
  Section section_ = Section::kNone;
  bool at_line_begin_ = true;
};

}  // namespace perigee
