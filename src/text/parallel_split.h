// Cuts a text into shares that can be encoded apart from each other: at the ends of chunks, and inside them
// where a piece must end whatever stands before.
#pragma once

#include <string_view>
#include <vector>

namespace perigee {

// In order; together the whole text. About 64 KB each, more where there is no place to cut.
std::vector<std::string_view> independent_shares(std::string_view text);

}  // namespace perigee
