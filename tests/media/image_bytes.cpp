#include "media/image_bytes.h"

#include <boost/crc.hpp>

namespace perigee::test {
namespace {

std::string big_endian(std::uint32_t value, int bytes) {
  std::string text;
  for (int i = bytes; i-- > 0;) text += static_cast<char>(value >> (8 * i));
  return text;
}

std::string little_endian16(std::uint32_t value) {
  return {static_cast<char>(value), static_cast<char>(value >> 8)};
}

}  // namespace

std::string png_of(std::uint32_t width, std::uint32_t height) {
  const std::string chunk =
      "IHDR" + big_endian(width, 4) + big_endian(height, 4) + std::string("\x08\x02\0\0\0", 5);  // 8-bit RGB
  boost::crc_32_type sum;
  sum.process_bytes(chunk.data(), chunk.size());
  const std::string pixels("\0\0\0\0IDAT\x35\xAF\x06\x1E", 12);
  return "\x89PNG\r\n\x1a\n" + big_endian(13, 4) + chunk + big_endian(sum.checksum(), 4) + pixels;
}

std::string jpeg_of(std::uint32_t width, std::uint32_t height) {
  const std::string frame = std::string("\xff\xc0\0\x0b\x08", 5) + big_endian(height, 2) +
                            big_endian(width, 2) + std::string("\x01\x01\x11\0", 4);  // one component
  return "\xff\xd8" + frame + std::string("\xff\xda\0\x08\x01\x01\0\0\x3f\0", 10);
}

std::string gif_of(std::uint32_t width, std::uint32_t height) {
  const std::string size = little_endian16(width) + little_endian16(height);
  return "GIF89a" + size + std::string("\0\0\0,\0\0\0\0", 8) + size + std::string("\0\x02\0;", 4);
}

std::string webp_of(std::uint32_t width, std::uint32_t height) {
  std::string webp = image_file("13_webp_lossy_52x44.webp");
  const std::size_t size = webp.find("\x9d\x01\x2a") + 3;
  return webp.replace(size, 4, little_endian16(width) + little_endian16(height));
}

std::string jpeg_with_scans(const std::string& jpeg, int count) {
  const std::size_t scan = jpeg.rfind("\xff\xda"), end = jpeg.rfind("\xff\xd9");
  std::string bytes = jpeg.substr(0, scan);
  for (int i = 0; i < count; ++i) bytes += jpeg.substr(scan, end - scan);
  return bytes + jpeg.substr(end);
}

}  // namespace perigee::test
