// Runs a reply through the parser in given groups of ids and judges its stream by what must hold for any
// reply whatever. Shared with the fuzz target, so without GoogleTest. For tests only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "text/reply_parser.h"
#include "text/utf8.h"

namespace perigee::test {

struct ReplyRun {
  ReplyMessage message;
  std::vector<ReplyDelta> deltas;
  std::vector<ReplyCall> calls;  // as streamed
  std::string reasoning;         // as streamed
  std::string content;           // as streamed
  std::string fault;             // the first promise that the stream broke; empty: none
};

inline void check(ReplyRun& run, bool holds, const char* promise) {
  if (!holds && run.fault.empty()) run.fault = promise;
}

inline void join_call_delta(ReplyRun& run, const ReplyDelta& delta) {
  if (delta.kind == ReplyDelta::Kind::kCallStart) {
    check(run, delta.call == run.calls.size(), "calls are announced once and in order");
    run.calls.push_back({.id = delta.id, .name = delta.text, .arguments = {}});
    return;
  }
  check(run, delta.call + 1 == run.calls.size(), "arguments follow their own call's announcement");
  if (!run.calls.empty()) run.calls.back().arguments += delta.text;
}

inline void join_deltas(ReplyRun& run) {
  for (const ReplyDelta& delta : run.deltas) {
    check(run, !delta.text.empty(), "no delta is empty");
    check(run, is_valid_utf8(delta.text), "every delta is valid UTF-8");
    if (delta.kind == ReplyDelta::Kind::kReasoning) {
      run.reasoning += delta.text;
    } else if (delta.kind == ReplyDelta::Kind::kContent) {
      run.content += delta.text;
    } else {
      join_call_delta(run, delta);
    }
  }
}

inline bool same_call(const ReplyCall& a, const ReplyCall& b) {
  return a.id == b.id && a.name == b.name && a.arguments == b.arguments;
}

inline void compare_with_message(ReplyRun& run) {
  const ReplyMessage& message = run.message;
  const bool same =
      message.reasoning.value_or("") == run.reasoning && message.content.value_or("") == run.content;
  const bool moved = !message.reasoning && message.content == run.reasoning + run.content;
  check(run, same || moved, "the deltas join to the message");
  check(run, message.content.has_value() || !message.calls.empty(), "content is null only beside calls");
  check(run, message.reasoning != "", "reasoning is never empty");
  const std::size_t cut = run.calls.size() - message.calls.size();
  check(run, cut <= 1, "one call at most is cut off");
  for (std::size_t k = 0; k < message.calls.size() && cut <= 1; ++k)
    check(run, same_call(message.calls[k], run.calls[k]), "a call's deltas join to the call");
}

// `groups`: how many ids each push takes; what they leave over comes in one last push.
inline ReplyRun run_reply(const Tokenizer& tokenizer, const ReplyOptions& options, EndedBy ended_by,
                          std::span<const TokenId> ids, std::span<const std::size_t> groups = {}) {
  ReplyRun run;
  ReplyParser parser(tokenizer, options);
  std::size_t at = 0;
  const auto push = [&](std::size_t count) {
    const bool ended = parser.done();
    const std::size_t before = run.deltas.size();
    parser.push(ids.subspan(at, count), run.deltas);
    check(run, !ended || run.deltas.size() == before, "no delta comes after the end");
    at += count;
  };
  for (const std::size_t group : groups) push(std::min(group, ids.size() - at));
  if (at < ids.size()) push(ids.size() - at);
  const bool ended = parser.done();
  const std::size_t before = run.deltas.size();
  run.message = parser.finish(ended_by, run.deltas);
  check(run, !ended || run.deltas.size() == before, "no delta comes after the end");
  join_deltas(run);
  compare_with_message(run);
  return run;
}

inline std::vector<std::size_t> one_by_one(std::size_t ids) {
  return std::vector<std::size_t>(ids, 1);
}

// The first thing in which two runs of one reply differ; empty: nothing.
inline std::string difference(const ReplyRun& a, const ReplyRun& b) {
  if (a.reasoning != b.reasoning) return "reasoning";
  if (a.content != b.content) return "content";
  if (!std::equal(a.calls.begin(), a.calls.end(), b.calls.begin(), b.calls.end(), same_call)) return "calls";
  if (a.message.calls.size() != b.message.calls.size()) return "number of complete calls";
  if (a.message.reasoning != b.message.reasoning) return "reasoning of the message";
  if (a.message.content != b.message.content) return "content of the message";
  if (a.message.finish != b.message.finish) return "finish reason";
  if (a.message.stop_string != b.message.stop_string) return "stop string";
  if (a.message.notes != b.message.notes) return "notes";
  return {};
}

}  // namespace perigee::test
