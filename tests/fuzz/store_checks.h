// What must hold for any bytes whatever that claim to be the index of a store: it is refused with an Error,
// or it is inside its files' sizes and is written back as it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace perigee::fuzz {

// The length and the checksum in the input are put right first, or no mutation would get past them.
void check_store_index(std::span<const std::uint8_t> input);

}  // namespace perigee::fuzz
