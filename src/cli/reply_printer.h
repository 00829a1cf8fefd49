// A reply on standard output while it is being made: content as it is, thinking dimmed or left out, a tool
// call as a line. Control characters of a model never reach a terminal.
#pragma once

#include <CLI/CLI.hpp>

#include <optional>
#include <span>
#include <string_view>

#include "text/reply.h"

namespace perigee {

// --show-thinking and --hide-thinking; unset without them.
void add_show_thinking_flag(CLI::App& command, std::optional<bool>& show);

class ReplyPrinter {
 public:
  struct Style {
    bool terminal = false;  // escape what would act on a terminal
    bool colours = false;   // dim the thinking
    bool thinking = false;  // show it at all
  };
  explicit ReplyPrinter(Style style) : style_(style) {}
  ~ReplyPrinter();  // leaves no terminal dimmed if an error came in between
  ReplyPrinter(const ReplyPrinter&) = delete;
  ReplyPrinter& operator=(const ReplyPrinter&) = delete;

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
