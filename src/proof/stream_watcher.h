// Joins the deltas of a reply's stream and watches over what each one must keep to: whole characters, no
// markup, calls announced once and in order, nothing after the end.
#pragma once

#include <span>
#include <string>

#include "proof/reply_view.h"
#include "text/reply.h"

namespace perigee {

class StreamWatcher {
 public:
  // With `marker_text`, markers that ordinary tokens spell belong in the output.
  explicit StreamWatcher(bool marker_text) : marker_text_(marker_text) {}

  // `after_end`: the reply had already ended when these came.
  void take(std::span<const ReplyDelta> deltas, bool after_end);

  const ReplyView& streams() const { return streams_; }        // joined; nothing is null
  const std::string& violation() const { return violation_; }  // the first one; empty: none

 private:
  void check_text(const ReplyDelta& delta);
  void join(const ReplyDelta& delta);
  void report(const char* what, const std::string& text);

  bool marker_text_;
  ReplyView streams_{.reasoning = "", .content = "", .calls = {}, .finish_reason = {}};
  std::string violation_;
};

}  // namespace perigee
