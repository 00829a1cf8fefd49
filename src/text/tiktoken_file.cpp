#include "text/tiktoken_file.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "base/base64.h"
#include "base/error.h"

namespace perigee {
namespace {

// Far above any real token (256 bytes in K3) and far below what would make merging one of them slow.
constexpr std::size_t kMaxTokenBytes = 65536;

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
