#include "text/reply_text.h"

namespace perigee {

bool ReplyText::push(std::string_view bytes, std::string& out) {
  const std::size_t before = out.size();
  characters_.push(bytes, out);
  tail_ += bytes;
  const std::size_t complete = tail_.size() - characters_.held_bytes();
  const bool unchanged = std::string_view(out).substr(before) == std::string_view(tail_).substr(0, complete);
  tail_.erase(0, complete);
  return !unchanged;
}

bool ReplyText::close(std::string& out) {
  const bool incomplete = drop_tail();
  if (incomplete) append_utf8(out, kReplacementCharacter);
  return incomplete;
}

bool ReplyText::drop_tail() {
  const bool incomplete = !tail_.empty();
  characters_.drop_tail();
  tail_.clear();
  return incomplete;
}

}  // namespace perigee
