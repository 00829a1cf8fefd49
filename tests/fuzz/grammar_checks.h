// What must hold for any bytes whatever in the grammar room; see parser_checks.h.
#pragma once

#include <cstdint>
#include <span>

namespace perigee::fuzz {

// A JSON schema: refused with a sentence, or a grammar in which some token may always come next until its
// end.
void check_schema(std::span<const std::uint8_t> input);

}  // namespace perigee::fuzz
