#include "fuzz/image_checks.h"

#include <cstdlib>

#include "base/error.h"
#include "media/decode_image.h"

namespace perigee::fuzz {
namespace {

constexpr ImageLimits kSmall{.most_pixels = 1 << 18};  // within what the allocation guard lets a target hold

}  // namespace

void check_image(std::span<const std::uint8_t> input) {
  try {
    const DecodedImage image = decode_image(input, "input", kSmall);
    const bool holds = image.width > 0 && image.height > 0 &&
                       std::uint64_t{image.width} * image.height <= kSmall.most_pixels &&
                       image.pixels.size() == row_bytes(image.format, image.width) * image.height;
    if (!holds) std::abort();  // in every kind of build, so that libFuzzer keeps the input
  } catch (const Error&) {
    return;
  }
}

}  // namespace perigee::fuzz
