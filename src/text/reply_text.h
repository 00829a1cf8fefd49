// The text of one channel or one value: bytes of tokens in, whole characters out. Tells apart what a cut
// leaves over, which is dropped, and what can never become a character, which is U+FFFD
// (docs/chat-format.md, "Replies").
#pragma once

#include <string>
#include <string_view>

#include "text/utf8.h"

namespace perigee {

class ReplyText {
 public:
  // Append to `out`; true if something invalid was replaced.
  bool push(std::string_view bytes, std::string& out);
  bool close(
      std::string& out);  // other text follows elsewhere: an incomplete character will not be completed

  // The reply ends here. True if there was an incomplete character.
  bool drop_tail();

 private:
  Utf8Stream characters_;
  std::string tail_;  // the bytes that characters_ holds back
};

}  // namespace perigee
