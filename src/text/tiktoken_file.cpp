#include "text/tiktoken_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

#include "base/error.h"

namespace perigee {
namespace {

// Far above any real token (256 bytes in K3) and far below what would make merging one of them slow.
constexpr std::size_t kMaxTokenBytes = 65536;
constexpr std::uint8_t kNotBase64 = 0xFF;

constexpr std::array<std::uint8_t, 256> make_base64_values() {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<std::uint8_t, 256> values{};
  values.fill(kNotBase64);
  for (std::size_t i = 0; i < kAlphabet.size(); ++i)
    values[static_cast<unsigned char>(kAlphabet[i])] = static_cast<std::uint8_t>(i);
  return values;
}

constexpr std::array<std::uint8_t, 256> kBase64Values = make_base64_values();

// Appends the bytes of RFC 4648 base64 with its padding; false if `text` is anything else.
bool decode_base64(std::string_view text, std::string& bytes) {
  if (text.empty() || text.size() % 4 != 0) return false;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_padding = i >= text.size() - padding;
    const std::uint8_t value = is_padding ? 0 : kBase64Values[static_cast<unsigned char>(text[i])];
    if (value == kNotBase64) return false;
    bits = bits << 6 | value;
    if (i % 4 != 3) continue;
    const char triple[] = {static_cast<char>(bits >> 16), static_cast<char>(bits >> 8),
                           static_cast<char>(bits)};
    bytes.append(triple, 3);
    bits = 0;
  }
  // Bits that the padding cuts off must be zero, or two texts would mean the same token.
  for (std::size_t i = 0; i < padding; ++i) {
    if (bytes.back() != 0) return false;
    bytes.pop_back();
  }
  return true;
}

class LineReader {
 public:
  LineReader(const std::string& where, TokenBytes& tokens) : where_(where), tokens_(tokens) {}

  void read(std::string_view line) {
    ++number_;
    if (line.ends_with('\r'))
      refuse("ends in a carriage return; a text tool has changed the file, get it again");
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos) refuse("is not \"<base64> <rank>\"; the file may be cut off");
    check_rank(line.substr(space + 1));
    bytes_.clear();
    if (space > kMaxTokenBytes / 3 * 4) refuse("has a token of more than 65536 bytes");
    if (!decode_base64(line.substr(0, space), bytes_)) refuse("has a token that is empty or not base64");
    if (!tokens_.add(bytes_)) refuse("repeats the token of an earlier line");
  }

 private:
  void check_rank(std::string_view text) const {
    const std::size_t expected = number_ - 1;
    std::size_t rank = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
    const bool is_number = error == std::errc() && end == text.data() + text.size();
    if (!is_number || rank != expected || (text.size() > 1 && text[0] == '0'))
      fail(ErrorCode::kCorrupt, "{}: line {}: its rank must be {}; ranks count up from 0, line by line",
           where_, number_, expected);
  }

  [[noreturn]] void refuse(const char* what) const {
    fail(ErrorCode::kCorrupt, "{}: line {}: {}", where_, number_, what);
  }

  const std::string& where_;
  TokenBytes& tokens_;
  std::size_t number_ = 0;
  std::string bytes_;
};

void require_single_bytes(const TokenBytes& tokens, const std::string& where) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    if (tokens.find({&text, 1}) == kNoToken)
      fail(ErrorCode::kCorrupt,
           "{}: there is no token for the single byte 0x{:02X}, so text with it could not be encoded", where,
           byte);
  }
}

}  // namespace

TokenBytes parse_tiktoken(std::string_view file_text, const std::string& where) {
  TokenBytes tokens;
  // No line can be shorter; a file of nothing but line breaks must not cost more than it can hold.
  constexpr std::size_t kShortestLine = std::string_view("QQ== 0\n").size();
  const auto lines = static_cast<std::size_t>(std::ranges::count(file_text, '\n'));
  tokens.reserve(std::min(lines, file_text.size() / kShortestLine));
  LineReader reader(where, tokens);
  while (!file_text.empty()) {
    const std::size_t end = std::min(file_text.find('\n'), file_text.size());
    reader.read(file_text.substr(0, end));
    file_text.remove_prefix(std::min(end + 1, file_text.size()));
  }
  require_single_bytes(tokens, where);
  return tokens;
}

}  // namespace perigee
