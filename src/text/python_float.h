// Numbers as Python writes them after reading them from JSON: repr of a float, integers of any size as they
// are (docs/chat-format.md, "Tools").
#pragma once

#include <string>
#include <string_view>

namespace perigee {

// json.dumps(value): the shortest decimal that reads back as `value`, with an exponent from 1e16 on and below
// 1e-4; NaN, Infinity and -Infinity by name.
std::string python_float(double value);

// json.dumps(json.loads(literal)) of a valid JSON number: an integer stays as it is, except that -0 is 0; all
// others are floats, too large ones Infinity.
std::string python_number(std::string_view literal);

}  // namespace perigee
