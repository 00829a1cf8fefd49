#include "text/chunking.h"

#include "text/unicode.h"
#include "text/utf8.h"

namespace perigee {

std::string_view Chunker::next() {
  bool is_space = false;
  std::size_t run = 0, at = 0, characters = slice_characters_;
  slice_characters_ = 0;
  for (; at < rest_.size(); ++characters) {
    if (characters == kMaxSliceCharacters) break;
    const CodePoint character = decode_utf8(rest_, at);
    const bool now_space = character.valid && is_python_space(character.value);
    run = now_space == is_space ? run + 1 : 1;
    is_space = now_space;
    if (run > kMaxRunCharacters) {
      slice_characters_ = characters;
      break;
    }
    at += character.valid ? character.bytes : 1;
  }
  const std::string_view chunk = rest_.substr(0, at);
  rest_.remove_prefix(at);
  return chunk;
}

}  // namespace perigee
