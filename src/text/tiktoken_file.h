// Reads tiktoken's vocabulary format: one token per line, its bytes in base64, a space, its rank. Ranks count
// up from 0, as in every released file. Strict, because a damaged vocabulary changes ids in silence.
#pragma once

#include <string>
#include <string_view>

#include "text/token_bytes.h"

namespace perigee {

// kCorrupt: "<where>: line 17: …".
TokenBytes parse_tiktoken(std::string_view file_text, const std::string& where);

}  // namespace perigee
