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
  unsigned bytes = 0;  // 1…4; the length of a maximal invalid part (Unicode 3.9, U+FFFD) is at most 3
  bool valid = false;
};

// What decode_utf8 gives where it finds no valid character.
CodePoint invalid_utf8_part(std::string_view text, std::size_t at);

// The code point that begins at text[at]; at < text.size(). A sequence cut off by the end of `text` is an
// invalid part. Inlined by force: as a call it would halve the pre-tokenizer's speed on text that is not
// ASCII.
[[gnu::always_inline]] inline CodePoint decode_utf8(std::string_view text, std::size_t at) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data()) + at;
  const std::size_t left = text.size() - at;
  const char32_t first = bytes[0];
  if (first < 0x80) return {first, 1, true};
  // Six bits of a continuation byte; a byte of another kind gives 0x40 or more.
  const auto bits = [&](unsigned i) { return static_cast<char32_t>(bytes[i] ^ 0x80); };
  if ((first & 0xE0) == 0xC0 && left >= 2) {
    const char32_t value = (first & 0x1F) << 6 | bits(1);
    if (bits(1) < 0x40 && value >= 0x80) return {value, 2, true};
  } else if ((first & 0xF0) == 0xE0 && left >= 3) {
    const char32_t value = (first & 0x0F) << 12 | bits(1) << 6 | bits(2);
    const bool surrogate = value >> 11 == 0xD800 >> 11;
    if ((bits(1) | bits(2)) < 0x40 && value >= 0x800 && !surrogate) return {value, 3, true};
  } else if ((first & 0xF8) == 0xF0 && left >= 4) {
    const char32_t value = (first & 0x07) << 18 | bits(1) << 12 | bits(2) << 6 | bits(3);
    if ((bits(1) | bits(2) | bits(3)) < 0x40 && value >= 0x10000 && value <= 0x10FFFF)
      return {value, 4, true};
  }
  return invalid_utf8_part(text, at);
}

// A surrogate or a value above U+10FFFF is written as U+FFFD, so that text stays valid.
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
