// Writes vocabularies in tiktoken's format from lists of tokens. For tests only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace perigee::test {

// RFC 4648, with padding.
inline std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::string_view part = bytes.substr(i, 3);
    unsigned bits = 0;
    for (std::size_t k = 0; k < 3; ++k)
      bits = bits << 8 | (k < part.size() ? static_cast<unsigned char>(part[k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k) text += k <= part.size() ? kDigits[bits >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

// The 256 single bytes in their order, then `longer`.
inline std::vector<std::string> with_single_bytes(const std::vector<std::string>& longer) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  tokens.insert(tokens.end(), longer.begin(), longer.end());
  return tokens;
}

inline std::string tiktoken_text(const std::vector<std::string>& tokens) {
  std::string text;
  for (std::size_t rank = 0; rank < tokens.size(); ++rank)
    text += base64(tokens[rank]) + " " + std::to_string(rank) + "\n";
  return text;
}

}  // namespace perigee::test
