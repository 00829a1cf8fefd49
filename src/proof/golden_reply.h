// Replies of golden files, fed to the parser in given groups of ids.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "proof/golden_file.h"
#include "proof/reply_view.h"
#include "text/reply_parser.h"

namespace perigee {

// A call that a stream may announce though the reply broke off inside it.
struct UnfinishedCall {
  std::string name;
  std::string arguments_so_far;
};

struct GoldenReply {
  std::vector<TokenId> ids;
  ReplyOptions options;
  EndedBy ended_by = EndedBy::kStop;
  bool marker_text = false;  // markers spelled in ordinary tokens belong in the output
  std::optional<UnfinishedCall> unfinished;
};

GoldenReply read_golden_reply(const Golden& golden);

// An object with reasoning_content, content, tool_calls and finish_reason.
ReplyView read_reply_view(const Golden& golden);

struct StreamedReply {
  ReplyView streams;      // joined deltas; no unfinished call
  ReplyMessage message;   // what finish() returned
  std::string violation;  // the first promise of the stream that was broken; empty: none
};

// Feeds the ids in groups that end at `ends` (ascending, the last one is the number of ids).
StreamedReply stream_reply(const GoldenReply& reply, const Tokenizer& tokenizer,
                           std::span<const std::size_t> ends);

}  // namespace perigee
