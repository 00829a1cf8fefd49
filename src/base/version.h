// The version of the program, written into reports and made checkpoints.
#pragma once

namespace perigee {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace perigee
