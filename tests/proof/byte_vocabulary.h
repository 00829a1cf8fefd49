// A vocabulary whose expected ids anybody can write down: one token per byte with the byte as its id, and
// K3's special slots behind them. For tests only.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer.h"

namespace perigee::test {

inline constexpr TokenId kOpen = 256 + 3, kClose = 256 + 4, kSep = 256 + 5, kEndOfMessage = 256 + 2;

inline std::string base64_of_byte(unsigned byte) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  return {kDigits[byte >> 2], kDigits[(byte & 3) << 4], '=', '='};
}

// With `reversed`, byte b has the id 255 - b.
inline Tokenizer byte_tokenizer(bool reversed = false) {
  std::string file;
  for (unsigned id = 0; id < 256; ++id) {
    file += base64_of_byte(reversed ? 255 - id : id) + " " + std::to_string(id) + "\n";
  }
  return Tokenizer(Vocabulary::parse(file, k3_special_slots(), "bytes"));
}

// The ids of `text` in byte_tokenizer(), its four markers recognised.
inline std::vector<TokenId> byte_ids(std::string_view text) {
  static constexpr std::pair<std::string_view, TokenId> kMarkers[] = {
      {"<|open|>", kOpen}, {"<|close|>", kClose}, {"<|sep|>", kSep}, {"<|end_of_msg|>", kEndOfMessage}};
  std::vector<TokenId> ids;
  while (!text.empty()) {
    const auto* marker =
        std::ranges::find_if(kMarkers, [&](auto known) { return text.starts_with(known.first); });
    const bool is_marker = marker != std::end(kMarkers);
    ids.push_back(is_marker ? marker->second : static_cast<unsigned char>(text.front()));
    text.remove_prefix(is_marker ? marker->first.size() : 1);
  }
  return ids;
}

}  // namespace perigee::test
