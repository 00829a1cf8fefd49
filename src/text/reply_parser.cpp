#include "text/reply_parser.h"

#include <optional>
#include <utility>

#include "text/reply_lexer.h"
#include "text/reply_output.h"
#include "text/reply_states.h"

namespace perigee {
namespace {

// Longer tags have attributes, and the channels have none.
constexpr std::size_t kMaxChannelTagIds = 8;

Channel opened_by(std::string_view header) {
  switch (tag_name(header)) {
    case TagName::kThink:
      return Channel::kThink;
    case TagName::kResponse:
      return Channel::kResponse;
    default:
      return Channel::kIdle;
  }
}

}  // namespace

// The newest complete tag decides: a channel that was closed again is not open.
Channel open_channel(std::span<const TokenId> prompt, const Tokenizer& tokenizer) {
  const ChatTokens tokens = find_chat_tokens(tokenizer.vocabulary());
  std::optional<std::size_t> sep;
  for (std::size_t at = prompt.size(); at-- > 0;) {
    if (prompt[at] == tokens.sep) sep = at;
    if (prompt[at] != tokens.open && prompt[at] != tokens.close) continue;
    if (!sep) continue;  // a header that the prompt leaves unfinished
    const auto header = prompt.subspan(at + 1, *sep - at - 1);
    if (prompt[at] == tokens.close || header.size() > kMaxChannelTagIds) return Channel::kIdle;
    return opened_by(tokenizer.decode_bytes(header));
  }
  return Channel::kIdle;
}

struct ReplyParser::State {
  State(const Tokenizer& tokenizer, const ReplyOptions& options)
      : output(options.calls_so_far),
        lexer(tokenizer.vocabulary()),
        states(options.start, options.tools_allowed, options.stop, output),
        tokens(find_chat_tokens(tokenizer.vocabulary())) {}

  // Behind a stop string more ids are expected, a generator may be a few tokens ahead.
  void note_after_end(TokenId id) {
    if (!states.stop_string() && !tokens.ends_reply(id)) output.note("after_end_dropped");
  }

  ReplyOutput output;
  ReplyLexer lexer;
  ReplyStates states;
  ChatTokens tokens;
};

ReplyParser::ReplyParser(const Tokenizer& tokenizer, ReplyOptions options)
    : state_(std::make_unique<State>(tokenizer, options)) {}
ReplyParser::~ReplyParser() = default;
ReplyParser::ReplyParser(ReplyParser&&) noexcept = default;
ReplyParser& ReplyParser::operator=(ReplyParser&&) noexcept = default;

void ReplyParser::push(std::span<const TokenId> ids, std::vector<ReplyDelta>& deltas) {
  state_->output.stream_to(deltas);
  for (const TokenId id : ids) {
    if (done())
      state_->note_after_end(id);
    else
      state_->lexer.push(id, state_->states);
  }
}

bool ReplyParser::done() const {
  return state_->states.done();
}

ReplyMessage ReplyParser::finish(EndedBy ended_by, std::vector<ReplyDelta>& deltas) {
  state_->output.stream_to(deltas);
  const bool cut = ended_by == EndedBy::kMaxTokens && !done();
  if (!done()) state_->lexer.finish(cut, state_->states);
  if (!done() && cut) state_->states.cut();
  if (!done()) state_->states.end();
  ReplyMessage message = state_->output.take(!cut || state_->states.stop_string());
  message.stop_string = state_->states.stop_string();
  return message;
}

}  // namespace perigee
