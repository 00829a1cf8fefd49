// What must hold for any bytes whatever, one function per parser of untrusted files: the parser accepts or
// throws Error, and what it accepted survives being written and read again. Called by the libFuzzer targets
// with new inputs and by a unit test with the committed ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace perigee::fuzz {

// The first 8 bytes are the size of the data buffer (little-endian), the rest is the header's JSON.
void check_safetensors_header(std::span<const std::uint8_t> input);
void check_index(std::span<const std::uint8_t> input);
void check_config(std::span<const std::uint8_t> input);

}  // namespace perigee::fuzz
