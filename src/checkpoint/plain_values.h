// Elements of an unquantised tensor as doubles, for showing them. Exact for every type but 64-bit integers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/dtype.h"

namespace perigee {

// kUnsupported naming `tensor` for types that have no plain value per element (F4, F6, complex, FNUZ).
std::uint64_t plain_element_bytes(const std::string& tensor, DType dtype);

// `bytes` holds whole little-endian elements of a type that plain_element_bytes() accepts.
std::vector<double> plain_values(DType dtype, std::span<const std::byte> bytes);

}  // namespace perigee
