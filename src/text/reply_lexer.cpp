#include "text/reply_lexer.h"

#include <utility>

#include "text/utf8.h"

namespace perigee {

ReplyLexer::ReplyLexer(const Vocabulary& vocabulary)
    : vocabulary_(vocabulary), tokens_(find_chat_tokens(vocabulary)) {}

void ReplyLexer::push(TokenId id, ReplyEvents& events) {
  if (in_header_) return push_header(id, events);
  if (begins_header(id)) return begin_header(id);
  if (tokens_.ends_reply(id)) return events.end();
  if (id == tokens_.sep) return events.note("stray_sep");
  push_literal(id, events);
}

void ReplyLexer::finish(bool cut, ReplyEvents& events) {
  if (!in_header_) return;
  if (!cut) return interrupt_header(events);
  in_header_ = false;
  events.note("header_cut");
}

void ReplyLexer::begin_header(TokenId id) {
  in_header_ = true;
  opens_ = id == tokens_.open;
  header_ids_ = 0;
  header_.clear();
}

void ReplyLexer::push_header(TokenId id, ReplyEvents& events) {
  if (id == tokens_.sep) return complete_header(events);
  if (begins_header(id)) {
    interrupt_header(events);
    return begin_header(id);
  }
  if (tokens_.ends_reply(id)) {
    interrupt_header(events);
    return events.end();
  }
  if (++header_ids_ > kMaxHeaderIds) {
    in_header_ = false;
    return events.note("header_dropped");
  }
  header_ += literal(id, events);
}

void ReplyLexer::push_literal(TokenId id, ReplyEvents& events) {
  if (vocabulary_.is_special(id)) events.note("special_as_text");
  const std::string_view bytes = literal(id, events);
  if (!bytes.empty()) events.text(bytes);
}

std::string_view ReplyLexer::literal(TokenId id, ReplyEvents& events) const {
  if (id < vocabulary_.size()) return vocabulary_.bytes(id);
  events.note("unknown_id");
  return {};
}

void ReplyLexer::complete_header(ReplyEvents& events) {
  in_header_ = false;
  events.tag(take_tag(events));
}

// Models elide <|sep|>, most often behind close(think). A header with attributes is not trusted without it.
void ReplyLexer::interrupt_header(ReplyEvents& events) {
  in_header_ = false;
  const ReplyTag tag = take_tag(events);
  events.note(tag.is_bare() ? "sep_missing" : "header_dropped");
  if (tag.is_bare()) events.tag(tag);
}

ReplyTag ReplyLexer::take_tag(ReplyEvents& events) {
  if (is_valid_utf8(header_)) return {opens_, std::exchange(header_, {})};
  events.note("bad_utf8");
  return {opens_, replace_invalid_utf8(header_)};
}

}  // namespace perigee
