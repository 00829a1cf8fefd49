#include "proof/stream_watcher.h"

#include <fmt/format.h>

#include "text/utf8.h"

namespace perigee {
namespace {

constexpr const char* kMarkers[] = {"<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"};

}  // namespace

void StreamWatcher::take(std::span<const ReplyDelta> deltas, bool after_end) {
  for (const ReplyDelta& delta : deltas) {
    if (after_end) report("a delta after the end", delta.text);
    check_text(delta);
    join(delta);
  }
}

void StreamWatcher::check_text(const ReplyDelta& delta) {
  if (!is_valid_utf8(delta.text)) report("a delta that holds part of a character", delta.text);
  if (marker_text_) return;
  for (const char* marker : kMarkers) {
    if (delta.text.find(marker) != std::string::npos) report("a delta that holds marker text", delta.text);
  }
}

void StreamWatcher::join(const ReplyDelta& delta) {
  switch (delta.kind) {
    case ReplyDelta::Kind::kReasoning:
      *streams_.reasoning += delta.text;
      break;
    case ReplyDelta::Kind::kContent:
      *streams_.content += delta.text;
      break;
    case ReplyDelta::Kind::kCallStart:
      if (delta.call != streams_.calls.size()) report("a call announced twice or out of order", delta.text);
      if (delta.text.empty()) report("a call announced without its name", delta.id);
      streams_.calls.push_back({delta.id, delta.text, ""});
      break;
    case ReplyDelta::Kind::kCallArguments:
      if (streams_.calls.empty() || delta.call + 1 != streams_.calls.size()) {
        report("arguments of a call that is not the last one announced", delta.text);
      } else {
        streams_.calls.back().arguments += delta.text;
      }
      break;
  }
}

void StreamWatcher::report(const char* what, const std::string& text) {
  if (violation_.empty()) violation_ = fmt::format("{}: \"{}\"\n", what, text);
}

}  // namespace perigee
