// A text of up to 15 bytes as two numbers, so that tables can hold and compare it without touching memory
// elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace perigee {

struct ShortKey {
  static constexpr std::size_t kMaxBytes = 15;

  std::uint64_t low = 0;   // the first eight bytes
  std::uint64_t high = 0;  // the others, and the length on top

  bool operator==(const ShortKey&) const = default;

  std::uint64_t hash() const {
    const auto product =
        static_cast<unsigned __int128>(low ^ 0x9E3779B97F4A7C15) * (high ^ 0xD1B54A32D192ED03);
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }
};

// `text` has at most ShortKey::kMaxBytes.
inline ShortKey short_key(std::string_view text) {
  const auto load = [](const char* bytes, std::size_t count) -> std::uint64_t {
    std::uint64_t value = 0;
    if (count == 8) {
      std::memcpy(&value, bytes, 8);
    } else if (count >= 4) {  // two halves that overlap
      std::uint32_t first = 0, last = 0;
      std::memcpy(&first, bytes, 4);
      std::memcpy(&last, bytes + count - 4, 4);
      value = first | static_cast<std::uint64_t>(last) << (8 * (count - 4));
    } else if (count > 0) {  // first, middle and last byte, which may be the same
      const auto byte = [&](std::size_t at) {
        return static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[at])) << (8 * at);
      };
      value = byte(0) | byte(count / 2) | byte(count - 1);
    }
    return value;
  };
  const std::size_t low = text.size() < 8 ? text.size() : 8;
  return {load(text.data(), low),
          load(text.data() + low, text.size() - low) | static_cast<std::uint64_t>(text.size()) << 56};
}

}  // namespace perigee
