#include "media/decode_image.h"

#include <algorithm>
#include <string_view>

#include "base/base64.h"
#include "media/formats.h"

namespace perigee {
namespace {

struct KnownFormat {
  const char* name;
  DecodedImage (*decode)(const ImageFile&);
};

// By the bytes that every file of a format begins with. `decode` is null for anything else.
KnownFormat format_of(std::string_view bytes) {
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) return {"PNG", decode_png};
  if (bytes.starts_with("\xff\xd8\xff")) return {"JPEG", decode_jpeg};
  if (bytes.starts_with("GIF87a") || bytes.starts_with("GIF89a")) return {"GIF", decode_gif};
  if (bytes.starts_with("RIFF") && bytes.size() >= 12 && bytes.substr(8, 4) == "WEBP")
    return {"WebP", decode_webp};
  return {"", nullptr};
}

std::size_t bits_of(PixelFormat format) {
  switch (format) {
    case PixelFormat::kBits:
      return 1;
    case PixelFormat::kIndex:
    case PixelFormat::kGray:
      return 8;
    case PixelFormat::kGrayAlpha:
    case PixelFormat::kGray16:
      return 16;
    case PixelFormat::kRgb:
      return 24;
    case PixelFormat::kRgba:
    case PixelFormat::kCmyk:
      return 32;
  }
  fail(ErrorCode::kInternal, "no such pixel format");
}

}  // namespace

std::size_t row_bytes(PixelFormat format, std::uint32_t width) {
  return (bits_of(format) * width + 7) / 8;
}

void refuse_image(const ImageFile& file, const std::string& reason) {
  fail(ErrorCode::kCorrupt, "{} is a {} that cannot be decoded: {}", file.where, file.format, reason);
}

void check_pixels(const ImageFile& file, std::uint64_t width, std::uint64_t height) {
  if (width == 0 || height == 0) refuse_image(file, fmt::format("it has {}x{} pixels", width, height));
  if (height > file.limits.most_pixels / width) {
    fail(ErrorCode::kUnsupported, "{} is a {} of {}x{} pixels; send one of at most {} pixels", file.where,
         file.format, width, height, file.limits.most_pixels);
  }
}

DecodedImage make_image(const ImageFile& file, std::uint64_t width, std::uint64_t height,
                        PixelFormat format) {
  check_pixels(file, width, height);
  DecodedImage image{.width = static_cast<std::uint32_t>(width),
                     .height = static_cast<std::uint32_t>(height),
                     .format = format,
                     .pixels = {}};
  image.pixels.resize(row_bytes(format, image.width) * image.height);
  return image;
}

DecodedImage decode_image(std::span<const std::uint8_t> bytes, const std::string& where,
                          const ImageLimits& limits) {
  const KnownFormat known = format_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (known.decode == nullptr) {
    fail(ErrorCode::kCorrupt, "{} is no image that can be decoded; send PNG, JPEG, WebP or GIF", where);
  }
  return known.decode({.bytes = bytes, .where = where, .format = known.name, .limits = limits});
}

DecodedImage decode_data_url(const std::string& url, const std::string& where, const ImageLimits& limits) {
  constexpr std::string_view kScheme = "data:", kEncoding = ";base64";
  const std::size_t comma = std::min(url.find(','), url.size());
  const std::string_view head = std::string_view(url).substr(0, comma);
  if (!head.starts_with(kScheme)) {
    fail(ErrorCode::kCorrupt, "{} is no data URL; nothing is fetched, send the image itself in base64",
         where);
  }
  if (comma == url.size() || !head.ends_with(kEncoding)) {
    fail(ErrorCode::kCorrupt, "{} is a data URL without base64; send data:image/png;base64,...", where);
  }
  std::string bytes;
  if (!decode_base64(std::string_view(url).substr(comma + 1), bytes)) {
    fail(ErrorCode::kCorrupt,
         "{} has other characters than base64 behind its comma, none, or not all of them; send the image "
         "again",
         where);
  }
  return decode_image({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}, where, limits);
}

}  // namespace perigee
