#include "text/reply_call.h"

namespace perigee {

void ReplyCallReader::start(const ReplyTag& tag, bool wanted) {
  const std::string name = tag.attribute("tool").value_or("");
  if (wanted && name.empty()) output_.note("call_without_name");
  shown_ = wanted && !name.empty();
  element_ = TagName::kUnknown;
  writer_ = ArgumentWriter();
  if (shown_) output_.start_call(name);
}

void ReplyCallReader::open_element(const ReplyTag& tag) {
  element_ = tag.name();
  if (!shown_) return;
  if (element_ == TagName::kJson) {
    writer_.begin_raw(json_);
  } else if (const auto key = tag.attribute("key")) {
    writer_.begin_argument(*key, tag.attribute("type").value_or(""), json_);
  } else {  // no element of the writer is open, so it will ignore the value
    output_.note("argument_without_key");
  }
  send();
}

void ReplyCallReader::append(std::string_view bytes) {
  if (!shown_ || !element_open()) return;
  text_.clear();
  if (value_.push(bytes, text_)) output_.note("bad_utf8");
  writer_.append_value(text_, json_);
  send();
}

void ReplyCallReader::close_element() {
  element_ = TagName::kUnknown;
  if (!shown_) return;
  text_.clear();
  if (value_.close(text_)) output_.note("bad_utf8");
  writer_.append_value(text_, json_);
  writer_.end_element(json_);
  send();
}

void ReplyCallReader::complete() {
  if (!shown_) return;
  writer_.finish(json_);
  send();
  output_.complete_call();
}

void ReplyCallReader::cut() {
  if (!shown_) return;
  if (value_.drop_tail()) output_.note("bad_utf8");
  output_.note("call_cut");
  output_.drop_call();
}

void ReplyCallReader::send() {
  if (writer_.mixed()) output_.note("mixed_elements");
  if (writer_.not_json()) output_.note("not_json");
  output_.call_arguments(json_);
  json_.clear();
}

}  // namespace perigee
