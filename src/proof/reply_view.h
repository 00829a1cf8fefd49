// A reply in the form in which it is compared: a whole message, or the joined deltas of its stream.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "text/reply.h"

namespace perigee {

struct ReplyView {
  std::optional<std::string> reasoning, content;
  std::vector<ReplyCall> calls;
  std::string finish_reason;
};

ReplyView view_of(const ReplyMessage& message);

// Null becomes empty, as in a stream.
ReplyView without_nulls(ReplyView view);

// One field a line.
std::string describe(const ReplyView& view);

}  // namespace perigee
