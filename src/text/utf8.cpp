#include "text/utf8.h"

#include <algorithm>
#include <cstring>

namespace perigee {
namespace {

unsigned char byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

// Rows of Table 3-7 (Unicode 3.9): length of a well-formed sequence and the range of its second byte, which
// is where overlong forms, surrogates and values above U+10FFFF are kept out. Length 0: no sequence begins
// so.
struct Lead {
  unsigned length;
  unsigned char second_low = 0x80;
  unsigned char second_high = 0xBF;
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {0};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

// The end of the valid characters that begin at text[at].
std::size_t valid_end(std::string_view text, std::size_t at) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080;
  while (at < text.size()) {
    std::uint64_t eight = kHighBits;
    if (text.size() - at >= sizeof eight) std::memcpy(&eight, text.data() + at, sizeof eight);
    if ((eight & kHighBits) == 0) {
      at += sizeof eight;
      continue;
    }
    const CodePoint next = decode_utf8(text, at);
    if (!next.valid) break;
    at += next.bytes;
  }
  return at;
}

// Appends `bytes` with invalid parts replaced, up to a character that the end cuts off; returns where that
// begins.
std::size_t append_repaired(std::string_view bytes, std::string& out) {
  for (std::size_t at = 0;;) {
    const std::size_t end = valid_end(bytes, at);
    out.append(bytes, at, end - at);
    if (end == bytes.size()) return end;
    at = end + decode_utf8(bytes, end).bytes;
    if (at == bytes.size() && at - end < lead_of(byte_at(bytes, end)).length) return end;
    append_utf8(out, kReplacementCharacter);
  }
}

}  // namespace

// No look at the sequence's full length: with all its bytes it would be valid.
CodePoint invalid_utf8_part(std::string_view text, std::size_t at) {
  const Lead lead = lead_of(byte_at(text, at));
  unsigned length = 1;
  if (lead.length > 1 && at + 1 < text.size() && byte_at(text, at + 1) >= lead.second_low &&
      byte_at(text, at + 1) <= lead.second_high) {
    ++length;
    while (at + length < text.size() && (byte_at(text, at + length) & 0xC0) == 0x80) ++length;
  }
  return {kReplacementCharacter, length, false};
}

void append_utf8(std::string& out, char32_t code_point) {
  const bool surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
  const char32_t value = surrogate || code_point > 0x10FFFF ? kReplacementCharacter : code_point;
  const auto continuation = [&](unsigned shift) { out += static_cast<char>(0x80 | (value >> shift & 0x3F)); };
  if (value < 0x80) {
    out += static_cast<char>(value);
  } else if (value < 0x800) {
    out += static_cast<char>(0xC0 | value >> 6);
    continuation(0);
  } else if (value < 0x10000) {
    out += static_cast<char>(0xE0 | value >> 12);
    continuation(6);
    continuation(0);
  } else {
    out += static_cast<char>(0xF0 | value >> 18);
    continuation(12);
    continuation(6);
    continuation(0);
  }
}

bool is_valid_utf8(std::string_view text) {
  return valid_end(text, 0) == text.size();
}

std::string replace_invalid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  if (append_repaired(bytes, out) < bytes.size()) append_utf8(out, kReplacementCharacter);
  return out;
}

void Utf8Stream::push(std::string_view bytes, std::string& out) {
  while (held_ > 0 && !bytes.empty()) {
    tail_[held_] = bytes.front();
    const CodePoint next = decode_utf8({tail_, held_ + 1}, 0);
    if (!next.valid && next.bytes == held_) {  // the new byte does not belong to the held ones
      append_utf8(out, kReplacementCharacter);
      held_ = 0;
      break;
    }
    bytes.remove_prefix(1);
    ++held_;
    if (next.valid) {
      out.append(tail_, held_);
      held_ = 0;
    }
  }
  if (bytes.empty()) return;
  const std::string_view cut_off = bytes.substr(append_repaired(bytes, out));
  std::copy(cut_off.begin(), cut_off.end(), tail_);
  held_ = static_cast<unsigned>(cut_off.size());
}

}  // namespace perigee
