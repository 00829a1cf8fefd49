#include "text/reply_states.h"

namespace perigee {
namespace {

using Place = ReplyStates::Place;

Place first_place(Channel start) {
  switch (start) {
    case Channel::kThink:
      return Place::kThink;
    case Channel::kResponse:
      return Place::kResponse;
    case Channel::kIdle:
      break;
  }
  return Place::kIdle;
}

struct Moves {
  Place open_think, close_think, open_response, close_response, open_tools, close_tools;
};

// The table of docs/chat-format.md. A place that leads to itself ignores the tag.
Moves moves_from(Place place) {
  constexpr Place kThink = Place::kThink, kIdle = Place::kIdle, kResponse = Place::kResponse,
                  kEpilogue = Place::kEpilogue, kTools = Place::kTools;
  switch (place) {
    case kThink:
      return {kThink, kIdle, kResponse, kEpilogue, kTools, kThink};
    case kIdle:
      return {kThink, kIdle, kResponse, kEpilogue, kTools, kIdle};
    case kResponse:
      return {kResponse, kResponse, kResponse, kEpilogue, kTools, kResponse};
    case kEpilogue:
      return {kEpilogue, kEpilogue, kResponse, kEpilogue, kTools, kEpilogue};
    case kTools:
      return {kTools, kTools, kResponse, kTools, kTools, kEpilogue};
    case Place::kCall:
    case Place::kDone:
      break;
  }
  return {place, place, place, place, place, place};
}

Place place_after(Place place, const ReplyTag& tag) {
  const Moves moves = moves_from(place);
  switch (tag.name()) {
    case TagName::kThink:
      return tag.opens() ? moves.open_think : moves.close_think;
    case TagName::kResponse:
      return tag.opens() ? moves.open_response : moves.close_response;
    case TagName::kTools:
      return tag.opens() ? moves.open_tools : moves.close_tools;
    case TagName::kMessage:
      return tag.opens() ? place : Place::kDone;
    case TagName::kCall:
    case TagName::kArgument:
    case TagName::kJson:
    case TagName::kUnknown:
      break;
  }
  return place;
}

}  // namespace

ReplyStates::ReplyStates(Channel start, bool tools_allowed, std::span<const std::string> stop,
                         ReplyOutput& output)
    : output_(output),
      call_(output),
      stop_(stop),
      place_(first_place(start)),
      tools_allowed_(tools_allowed) {}

// Inside a block that leaves no trace there is nothing to report either.
bool ReplyStates::hidden() const {
  if (place_ == Place::kCall) return !call_.shown();
  return place_ == Place::kTools && !tools_allowed_;
}

void ReplyStates::note_if_shown(std::string_view what) {
  if (!hidden()) output_.note(what);
}

void ReplyStates::text(std::string_view bytes) {
  switch (place_) {
    case Place::kThink:
    case Place::kIdle:
    case Place::kResponse:
      characters_.clear();
      if (channel_.push(bytes, characters_)) output_.note("bad_utf8");
      return show(characters_);
    case Place::kCall:
      if (call_.element_open()) return call_.append(bytes);
      break;
    case Place::kEpilogue:
    case Place::kTools:
    case Place::kDone:
      break;
  }
  note_if_shown("text_dropped");
}

void ReplyStates::tag(const ReplyTag& tag) {
  if (done()) return;
  if (tag.name() == TagName::kThink) think_tag_seen_ = true;
  if (tag.name() == TagName::kUnknown) return note_if_shown("unknown_tag");
  if (place_ == Place::kCall) return tag_in_call(tag);
  if (place_ == Place::kTools && tag.is(TagName::kCall, true)) return start_call(tag);
  const Place to = place_after(place_, tag);
  if (to == place_) return note_if_shown("ignored_tag");
  move(to, tag);
}

void ReplyStates::end() {
  if (place_ == Place::kCall) {
    if (call_.element_open())
      call_.cut();
    else
      end_call(false);
  }
  end_channel();
  place_ = Place::kDone;
}

void ReplyStates::cut() {
  if (place_ == Place::kCall) call_.cut();
  end_channel();
  place_ = Place::kDone;
}

void ReplyStates::show(std::string_view characters) {
  if (place_ == Place::kThink) return output_.reasoning(characters);
  if (stop_.empty()) return output_.content(characters);
  content_.clear();
  stop_.push(characters, content_);
  output_.content(content_);
  if (stop_.matched()) place_ = Place::kDone;
}

// Another channel follows.
void ReplyStates::close_channel() {
  characters_.clear();
  if (channel_.close(characters_)) {
    output_.note("bad_utf8");
    show(characters_);
  }
  end_content();
}

// Nothing follows: a character that was cut is not shown at all.
void ReplyStates::end_channel() {
  if (channel_.drop_tail()) output_.note("utf8_tail_dropped");
  end_content();
}

void ReplyStates::end_content() {
  content_.clear();
  stop_.end_text(content_);
  output_.content(content_);
  if (stop_.matched()) place_ = Place::kDone;
}

void ReplyStates::move(Place to, const ReplyTag& tag) {
  close_channel();
  if (done()) return;  // a stop string ended with the channel
  note_move(to, tag);
  if (to == Place::kResponse) response_seen_ = true;
  place_ = to;
}

void ReplyStates::note_move(Place to, const ReplyTag& tag) {
  const bool answered = tag.is(TagName::kResponse, false) || tag.is(TagName::kMessage, false);
  if (place_ == Place::kThink) {
    if (to != Place::kIdle && to != Place::kDone) output_.note("implicit_close:think");
    // Models skip the thought and answer at once; the closing tag of an answer is the evidence.
    if (answered && !think_tag_seen_ && output_.has_reasoning()) {
      output_.note("answer_was_in_think");
      output_.move_reasoning_to_content();
    }
  }
  if (place_ == Place::kResponse && to == Place::kTools) output_.note("implicit_close:response");
  if (place_ == Place::kEpilogue && to == Place::kResponse && response_seen_)
    output_.note("response_reopened");
  if (to == Place::kTools && !tools_allowed_) output_.note("tools_suppressed");
}

void ReplyStates::start_call(const ReplyTag& tag) {
  call_.start(tag, tools_allowed_);
  place_ = Place::kCall;
}

void ReplyStates::tag_in_call(const ReplyTag& tag) {
  if (tag.name() == TagName::kArgument || tag.name() == TagName::kJson) return element_tag(tag);
  if (tag.is(TagName::kMessage, false)) return end();
  const bool ends_call = tag.name() == TagName::kCall || tag.is(TagName::kTools, false);
  if (!ends_call) return note_if_shown("ignored_tag");
  end_value();
  end_call(tag.is(TagName::kCall, false));
  if (tag.is(TagName::kCall, true)) start_call(tag);
  if (tag.is(TagName::kTools, false)) place_ = Place::kEpilogue;
}

void ReplyStates::element_tag(const ReplyTag& tag) {
  if (tag.opens()) {
    end_value();
    return call_.open_element(tag);
  }
  if (!call_.element_open()) return note_if_shown("ignored_tag");
  if (call_.element() != tag.name()) note_if_shown("mismatched_close");
  call_.close_element();
}

void ReplyStates::end_value() {
  if (!call_.element_open()) return;
  note_if_shown(call_.element() == TagName::kJson ? "implicit_close:json" : "implicit_close:argument");
  call_.close_element();
}

void ReplyStates::end_call(bool closed) {
  if (!closed) note_if_shown("implicit_close:call");
  call_.complete();
  place_ = Place::kTools;
}

}  // namespace perigee
