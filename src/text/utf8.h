// UTF-8 one code point at a time, and the hold-back that keeps a stream of tokens from showing half a
// character (docs/chat-format.md). No normalisation, no grapheme clusters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace perigee {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;

struct CodePoint {
  char32_t value = 0;  // kReplacementCharacter for an invalid part
  unsigned bytes =
      0;  // 1…4; of an invalid part: the length of the maximal invalid part (Unicode 3.9, U+FFFD)
  bool valid = false;
};

// The code point that begins at text[at]; at < text.size(). A sequence cut off by the end of `text` is an
// invalid part.
CodePoint decode_utf8(std::string_view text, std::size_t at);

void append_utf8(std::string& out, char32_t code_point);
bool is_valid_utf8(std::string_view text);

// `bytes` with each maximal invalid part replaced by U+FFFD.
std::string replace_invalid_utf8(std::string_view bytes);

// Bytes in, whole characters out. An incomplete character waits for its remaining bytes; what can never
// become one is replaced by U+FFFD, once per maximal invalid part.
class Utf8Stream {
 public:
  // Appends to `out` every character that `bytes` completes.
  void push(std::string_view bytes, std::string& out);

  // Forgets an incomplete character, as a reply that is cut inside one must (the tail is never shown).
  void drop_tail() { held_ = 0; }
  std::size_t held_bytes() const { return held_; }

 private:
  char tail_[4] = {};
  unsigned held_ = 0;
};

}  // namespace perigee
