// Base64 of RFC 4648, §4.
#pragma once

#include <string>
#include <string_view>

namespace perigee {

// Appends the bytes of `text`, which has its padding and nothing else, line ends neither. False if `text` is
// empty or anything else; `bytes` then has some of them.
bool decode_base64(std::string_view text, std::string& bytes);

}  // namespace perigee
