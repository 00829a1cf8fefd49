#include "cli/reply_printer.h"

#include <cstdio>
#include <string>

#include "cli/byte_streams.h"
#include "cli/token_view.h"

namespace perigee {
namespace {

constexpr const char* kDim = "\x1b[2m";
constexpr const char* kPlain = "\x1b[0m";

}  // namespace

void add_show_thinking_flag(CLI::App& command, std::optional<bool>& show) {
  command.add_flag_function(
      "--show-thinking,!--hide-thinking", [&show](std::int64_t count) { show = count > 0; },
      "Print the thinking too [on a terminal yes, else no]");
}

ReplyPrinter::~ReplyPrinter() {
  if (section_ == Section::kThinking && style_.colours) std::fputs(kPlain, stdout);
}

void ReplyPrinter::write(std::string_view text) {
  if (text.empty()) return;
  at_line_begin_ = text.back() == '\n';
  write_output(style_.terminal ? harmless_text(text) : std::string(text));
}

void ReplyPrinter::leave() {
  if (section_ == Section::kThinking && style_.colours) write_output(kPlain);
  if (section_ != Section::kNone && !at_line_begin_) write("\n");
  if (section_ == Section::kThinking) write("\n");
  section_ = Section::kNone;
}

void ReplyPrinter::enter(Section section) {
  if (section == section_ && section != Section::kCall) return;
  leave();
  section_ = section;
  if (section == Section::kThinking && style_.colours) write_output(kDim);
}

void ReplyPrinter::print(std::span<const ReplyDelta> deltas) {
  for (const ReplyDelta& delta : deltas) {
    switch (delta.kind) {
      case ReplyDelta::Kind::kReasoning:
        if (!style_.thinking) continue;
        enter(Section::kThinking);
        break;
      case ReplyDelta::Kind::kContent:
        enter(Section::kContent);
        break;
      case ReplyDelta::Kind::kCallStart:
        enter(Section::kCall);
        write("call ");
        write(delta.text);
        write(" ");
        continue;
      case ReplyDelta::Kind::kCallArguments:
        break;
    }
    write(delta.text);
  }
  std::fflush(stdout);
}

void ReplyPrinter::finish() {
  leave();
  std::fflush(stdout);
}

}  // namespace perigee
