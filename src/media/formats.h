// Inside media: one decoder per format, and what all of them say of a file.
#pragma once

#include <fmt/format.h>

#include <span>
#include <string>

#include "base/error.h"
#include "media/decode_image.h"

namespace perigee {

// The file that is being decoded, for sentences.
struct ImageFile {
  std::span<const std::uint8_t> bytes;
  const std::string& where;
  const char* format;  // "PNG", …
  const ImageLimits& limits;
};

[[noreturn]] void refuse_image(const ImageFile& file, const std::string& reason);

// Throws Error if there is no pixel, or there are more than the limit.
void check_pixels(const ImageFile& file, std::uint64_t width, std::uint64_t height);

// An image of this size with pixels of zero bytes, after check_pixels.
DecodedImage make_image(const ImageFile& file, std::uint64_t width, std::uint64_t height, PixelFormat format);

DecodedImage decode_png(const ImageFile& file);
DecodedImage decode_jpeg(const ImageFile& file);
DecodedImage decode_webp(const ImageFile& file);
DecodedImage decode_gif(const ImageFile& file);

}  // namespace perigee
