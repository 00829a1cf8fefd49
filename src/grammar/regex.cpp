#include "grammar/regex.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "text/utf8.h"

namespace perigee {
namespace {

RegexRef made(Regex regex) {
  return std::make_shared<const Regex>(std::move(regex));
}

std::string utf8(char32_t code_point) {
  std::string bytes;
  append_utf8(bytes, code_point);
  return bytes;
}

// `first` and `last` differ in such a way that every byte of the one to that of the other is a range by
// itself.
RegexRef byte_ranges(char32_t first, char32_t last) {
  const std::string low = utf8(first), high = utf8(last);
  std::vector<RegexRef> parts;
  for (std::size_t i = 0; i < low.size(); ++i)
    parts.push_back(regex_byte(static_cast<std::uint8_t>(low[i]), static_cast<std::uint8_t>(high[i])));
  return regex_sequence(std::move(parts));
}

// All of one length. Splits until only the last bytes vary from their least to their greatest value.
void append_same_length(char32_t first, char32_t last, unsigned bytes, std::vector<RegexRef>& out) {
  for (unsigned i = 1; i < bytes; ++i) {
    const char32_t mask = (char32_t{1} << (6 * i)) - 1;
    if ((first & ~mask) == (last & ~mask)) continue;
    if ((first & mask) != 0) {
      append_same_length(first, first | mask, bytes, out);
      return append_same_length((first | mask) + 1, last, bytes, out);
    }
    if ((last & mask) != mask) {
      append_same_length(first, (last & ~mask) - 1, bytes, out);
      return append_same_length(last & ~mask, last, bytes, out);
    }
  }
  out.push_back(byte_ranges(first, last));
}

}  // namespace

RegexRef regex_byte(std::uint8_t low, std::uint8_t high) {
  return made({.kind = Regex::Kind::kByte, .low = low, .high = high, .parts = {}});
}

RegexRef regex_text(std::string_view text) {
  std::vector<RegexRef> parts;
  for (const char c : text)
    parts.push_back(regex_byte(static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c)));
  return regex_sequence(std::move(parts));
}

RegexRef regex_sequence(std::vector<RegexRef> parts) {
  return made({.kind = Regex::Kind::kSequence, .parts = std::move(parts)});
}

RegexRef regex_alternatives(std::vector<RegexRef> parts) {
  return made({.kind = Regex::Kind::kAlternatives, .parts = std::move(parts)});
}

RegexRef regex_repeat(RegexRef part, std::uint32_t least, std::uint32_t most) {
  return made({.kind = Regex::Kind::kRepeat, .least = least, .most = most, .parts = {std::move(part)}});
}

RegexRef regex_character(RegexRef part) {
  return made({.kind = Regex::Kind::kCharacter, .parts = {std::move(part)}});
}

RegexRef regex_code_points(char32_t first, char32_t last) {
  struct Block {
    char32_t first, last;
    unsigned bytes;
  };
  constexpr std::array<Block, 5> kBlocks = {
      {{0, 0x7F, 1}, {0x80, 0x7FF, 2}, {0x800, 0xD7FF, 3}, {0xE000, 0xFFFF, 3}, {0x10000, 0x10FFFF, 4}}};
  std::vector<RegexRef> parts;
  for (const Block& block : kBlocks) {
    const char32_t low = std::max(first, block.first), high = std::min(last, block.last);
    if (low <= high) append_same_length(low, high, block.bytes, parts);
  }
  return regex_alternatives(std::move(parts));
}

}  // namespace perigee
