// The classes of characters that K3's pre-tokenizer and its cutting of long text tell apart, in the Unicode
// version of the released tokenizer, 16.0 (docs/chat-format.md, "Pieces"). Not a Unicode library: no names,
// no case mapping, no normalisation.
#pragma once

#include <cstdint>

#include "text/unicode_tables.h"

namespace perigee {

// Bits of a character's class. A character without any is a symbol, a control or unassigned.
inline constexpr std::uint8_t kCharHan = 1;          // Script=Han
inline constexpr std::uint8_t kCharUpper = 2;        // Lu, Lt, Lm, Lo or M, not Han: the first part of a word
inline constexpr std::uint8_t kCharLower = 4;        // Ll, Lm, Lo or M, not Han: the second part of a word
inline constexpr std::uint8_t kCharLetter = 8;       // L
inline constexpr std::uint8_t kCharNumber = 16;      // N
inline constexpr std::uint8_t kCharSpace = 32;       // White_Space
inline constexpr std::uint8_t kCharNewline = 64;     // CR or LF, which are white space too
inline constexpr std::uint8_t kCharMultiByte = 128;  // only of byte_class: the character must be decoded

inline std::uint8_t char_class(char32_t code_point) {
  if (code_point > 0x10FFFF) return 0;
  const unsigned page = kUnicodePageOf[code_point >> 8];
  const unsigned word = kUnicodePages[page << 4 | (code_point >> 4 & 15)];
  return kUnicodeMasks[kUnicodeWords[word] >> (4 * (code_point & 15)) & 15];
}

// The class of the character that begins with this byte if it is ASCII, kCharMultiByte alone otherwise.
inline std::uint8_t byte_class(char byte) {
  return kUnicodeByteClass[static_cast<unsigned char>(byte)];
}

// Python's str.isspace for one character: White_Space and the four information separators.
inline bool is_python_space(char32_t code_point) {
  return (char_class(code_point) & kCharSpace) != 0 || (code_point >= 0x1C && code_point <= 0x1F);
}

}  // namespace perigee
