// Image files for tests: committed ones, and headers that promise more than the file holds.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/file.h"
#include "support/paths.h"

namespace perigee::test {

inline std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// A file of tests/data/media.
inline std::string image_file(const std::string& name) {
  return read_small_file(data_folder() / "media" / name, 1 << 20);
}

inline std::string with_byte(std::string bytes, std::size_t at, char value) {
  bytes[at] = value;
  return bytes;
}

std::string png_of(std::uint32_t width, std::uint32_t height);   // with a right checksum and no pixels
std::string jpeg_of(std::uint32_t width, std::uint32_t height);  // up to the frame's header
std::string gif_of(std::uint32_t width, std::uint32_t height);   // a frame without pixels
std::string webp_of(std::uint32_t width, std::uint32_t height);  // lossy, up to the size
// The last scan of a progressive file, `count` times.
std::string jpeg_with_scans(const std::string& jpeg, int count);

}  // namespace perigee::test
