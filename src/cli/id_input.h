// Token ids as people and programs write them: numbers between blanks, commas or line breaks, or a JSON
// array.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace perigee {

// kCorrupt naming the first word that is no id of `vocabulary`, its number and its byte in `text`; `where` is
// what the sentence calls the text.
std::vector<TokenId> parse_token_ids(std::string_view text, const Vocabulary& vocabulary,
                                     const std::string& where);

}  // namespace perigee
