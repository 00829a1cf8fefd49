#include "proof/parity_rows.h"

#include <algorithm>
#include <utility>

#include "text/utf8.h"

namespace perigee {
namespace {

constexpr std::size_t kBytesBefore = 40;
constexpr std::size_t kBytesAfter = 60;
constexpr std::size_t kIdsBefore = 4;
constexpr std::size_t kIdsAfter = 8;

template <typename Sequence>
std::size_t first_difference(const Sequence& a, const Sequence& b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

// Moves back to the first byte of a character.
std::size_t character_begin(std::string_view text, std::size_t at) {
  while (at > 0 && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

// The text around `at` on one line.
std::string excerpt(std::string_view text, std::size_t at) {
  const std::size_t begin = character_begin(text, at > kBytesBefore ? at - kBytesBefore : 0);
  const std::size_t end = character_begin(text, std::min(text.size(), at + kBytesAfter));
  std::string out = begin > 0 ? "…" : "";
  for (const char c : replace_invalid_utf8(text.substr(begin, end - begin))) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + (end < text.size() ? "…" : "");
}

std::string excerpt(std::span<const TokenId> ids, std::size_t at) {
  const std::size_t begin = at > kIdsBefore ? at - kIdsBefore : 0;
  const std::size_t end = std::min(ids.size(), at + kIdsAfter);
  return fmt::format("{}{}{}", begin > 0 ? "… " : "", fmt::join(ids.subspan(begin, end - begin), " "),
                     end < ids.size() ? " …" : "");
}

}  // namespace

void ParityTally::equal() {
  ++row_.cases;
  ++row_.equal;
}

void ParityTally::different(ParityDifference difference) {
  ++row_.cases;
  if (!row_.first) row_.first = std::move(difference);
}

void ParityTally::compare_text(const std::string& which, std::string_view expected, std::string_view found) {
  if (expected == found) return equal();
  const std::size_t at = first_difference(expected, found);
  different({fmt::format("{}, byte {} of {}", which, at, expected.size()), excerpt(expected, at),
             excerpt(found, at)});
}

void ParityTally::compare_ids(const std::string& which, std::span<const TokenId> expected,
                              std::span<const TokenId> found) {
  if (std::ranges::equal(expected, found)) return equal();
  const std::size_t at = first_difference(expected, found);
  different({fmt::format("{}, id {} of {}", which, at, expected.size()), excerpt(expected, at),
             excerpt(found, at)});
}

}  // namespace perigee
