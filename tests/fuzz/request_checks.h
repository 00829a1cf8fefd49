// What must hold for any body of a request to the server; see parser_checks.h. Called by the libFuzzer target
// with new inputs and by a unit test with the committed ones.
#pragma once

#include <cstdint>
#include <span>

namespace perigee::fuzz {

// Every route that reads a body answers it once, with 200 or a refusal; answers and events are JSON.
void check_request_body(std::span<const std::uint8_t> input);

}  // namespace perigee::fuzz
