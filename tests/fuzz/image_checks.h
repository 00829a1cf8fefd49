// The checks of images that fuzz targets and unit tests run on arbitrary bytes.
#pragma once

#include <cstdint>
#include <span>

namespace perigee::fuzz {

// An image is refused by an Error, or has as many bytes of pixels as its size says.
void check_image(std::span<const std::uint8_t> input);

}  // namespace perigee::fuzz
