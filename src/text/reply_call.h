// One tool call while it is being generated: its elements and their values. Which tag ends what is decided in
// reply_states.h; how values become JSON in argument_writer.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "text/argument_writer.h"
#include "text/reply_output.h"
#include "text/reply_tag.h"
#include "text/reply_text.h"

namespace perigee {

class ReplyCallReader {
 public:
  explicit ReplyCallReader(ReplyOutput& output) : output_(output) {}  // keeps a reference

  // Begins a call. One without a name is followed like any other but leaves no trace, and so is every call
  // if `wanted` is false.
  void start(const ReplyTag& tag, bool wanted);
  bool shown() const { return shown_; }

  bool element_open() const { return element_ != TagName::kUnknown; }
  TagName element() const { return element_; }  // kArgument, kJson; kUnknown: none is open

  void open_element(const ReplyTag& tag);  // kArgument or kJson; none may be open
  void append(std::string_view bytes);     // ignored while none is open
  void close_element();
  void complete();  // no element may be open
  void cut();       // the reply ended inside the call

 private:
  void send();

  ReplyOutput& output_;
  ArgumentWriter writer_;
  ReplyText value_;
  TagName element_ = TagName::kUnknown;
  bool shown_ = false;
  std::string text_;  // of one append, whole characters
  std::string json_;  // not sent yet
};

}  // namespace perigee
