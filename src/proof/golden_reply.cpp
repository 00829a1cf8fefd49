#include "proof/golden_reply.h"

#include "base/error.h"
#include "proof/stream_watcher.h"

namespace perigee {
namespace {

Channel read_channel(const Golden& golden) {
  const std::string& name = golden.text("start");
  for (const Channel channel : {Channel::kIdle, Channel::kThink, Channel::kResponse}) {
    if (name == channel_name(channel)) return channel;
  }
  fail(ErrorCode::kCorrupt, "{}: \"start\" must be idle, think or response, not {}", golden.place(), name);
}

EndedBy read_ended_by(const Golden& golden) {
  const std::string& word = golden.text("ended_by");
  if (word == "stop") return EndedBy::kStop;
  if (word == "max_tokens") return EndedBy::kMaxTokens;
  fail(ErrorCode::kCorrupt, "{}: \"ended_by\" must be stop or max_tokens, not {}", golden.place(), word);
}

// A stream may have announced one call more than the message has; if it is the known one, that is no
// difference.
void drop_unfinished(ReplyView& streams, const ReplyMessage& message,
                     const std::optional<UnfinishedCall>& unfinished) {
  if (!unfinished || streams.calls.size() != message.calls.size() + 1) return;
  const ReplyCall& last = streams.calls.back();
  if (last.name == unfinished->name && unfinished->arguments_so_far.starts_with(last.arguments)) {
    streams.calls.pop_back();
  }
}

}  // namespace

GoldenReply read_golden_reply(const Golden& golden) {
  GoldenReply reply;
  reply.ids = golden.ids("ids");
  reply.options.start = read_channel(golden);
  reply.options.tools_allowed = golden.flag("tools_allowed", true);
  if (golden.has("calls_so_far")) reply.options.calls_so_far = golden.number("calls_so_far");
  if (golden.has("stop")) reply.options.stop = golden.texts("stop");
  reply.ended_by = read_ended_by(golden);
  reply.marker_text = golden.flag("marker_text_in_output", false);
  if (golden.has("unfinished_call")) {
    const Golden call = golden.object("unfinished_call");
    reply.unfinished = UnfinishedCall{call.text("name"), call.text("arguments_so_far")};
  }
  return reply;
}

ReplyView read_reply_view(const Golden& golden) {
  ReplyView view{golden.text_or_null("reasoning_content"),
                 golden.text_or_null("content"),
                 {},
                 golden.text("finish_reason")};
  for (const Golden& call : golden.objects("tool_calls")) {
    view.calls.push_back({call.text("id"), call.text("name"), call.text("arguments")});
  }
  return view;
}

StreamedReply stream_reply(const GoldenReply& reply, const Tokenizer& tokenizer,
                           std::span<const std::size_t> ends) {
  ReplyParser parser(tokenizer, reply.options);
  StreamWatcher watcher(reply.marker_text);
  std::vector<ReplyDelta> deltas;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    const bool was_done = parser.done();
    deltas.clear();
    parser.push(std::span(reply.ids).subspan(begin, end - begin), deltas);
    watcher.take(deltas, was_done);
    begin = end;
  }
  const bool was_done = parser.done();
  deltas.clear();
  StreamedReply result;
  result.message = parser.finish(reply.ended_by, deltas);
  watcher.take(deltas, was_done);
  result.streams = watcher.streams();
  result.streams.finish_reason = finish_reason_name(result.message.finish);
  result.violation = watcher.violation();
  drop_unfinished(result.streams, result.message, reply.unfinished);
  return result;
}

}  // namespace perigee
