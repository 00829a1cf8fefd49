// Images as people send them (PNG, JPEG, WebP, GIF) to pixels. The bytes decide what a file is, not its name
// or media type. What is decoded is what the released processor sees (Pillow's Image.open): the first frame,
// as stored; no orientation, colour profile or gamma is applied.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace perigee {

// One row after another, each beginning at a byte; Pillow's modes.
enum class PixelFormat {
  kBits,       // eight pixels a byte, the first in its highest bit ("1")
  kIndex,      // of a palette, which is not kept ("P")
  kGray,       // "L"
  kGrayAlpha,  // "LA"
  kGray16,     // little endian ("I;16")
  kRgb,
  kRgba,  // not premultiplied
  kCmyk,  // 0 is no ink
};

std::size_t row_bytes(PixelFormat format, std::uint32_t width);

struct DecodedImage {
  std::uint32_t width = 0;  // pixels, at least 1
  std::uint32_t height = 0;
  PixelFormat format = PixelFormat::kRgb;
  std::vector<std::uint8_t> pixels;  // height * row_bytes
};

struct ImageLimits {
  // The released processor shrinks everything to about 13 million pixels; a photo of 48 million is not
  // refused.
  std::uint64_t most_pixels = 64'000'000;
};

// Throws Error (kCorrupt, kUnsupported) with a sentence that begins with `where`: the bytes are no image of
// these formats, it is cut off or broken, or it has more pixels than the limit, which is found before memory
// is taken for them.
DecodedImage decode_image(std::span<const std::uint8_t> bytes, const std::string& where,
                          const ImageLimits& limits = {});

// The same of "data:image/png;base64,…" (RFC 2397); its media type is not looked at. Nothing is fetched:
// another URL is an Error.
DecodedImage decode_data_url(const std::string& url, const std::string& where,
                             const ImageLimits& limits = {});

}  // namespace perigee
