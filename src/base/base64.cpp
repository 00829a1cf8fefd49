#include "base/base64.h"

#include <array>
#include <cstdint>

namespace perigee {
namespace {

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

}  // namespace

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
  // Bits that the padding cuts off must be zero, or two texts would mean the same bytes.
  for (std::size_t i = 0; i < padding; ++i) {
    if (bytes.back() != 0) return false;
    bytes.pop_back();
  }
  return true;
}

}  // namespace perigee
