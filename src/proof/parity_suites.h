// One function per golden file: each adds its rows. The fields are described in docs/chat-format.md.
#pragma once

#include <vector>

#include "proof/golden_file.h"
#include "proof/text_parity.h"
#include "text/tokenizer.h"

namespace perigee {

using ParityRows = std::vector<ParityRow>;

void check_tokenizer(const Golden& file, const Tokenizer& tokenizer, ParityRows& rows);
void check_prompts(const Golden& file, const Tokenizer& tokenizer, ParityRows& rows);
void check_tools(const Golden& file, const Tokenizer& tokenizer, ParityRows& rows);
void check_replies(const Golden& file, const Tokenizer& tokenizer, ParityRows& rows);
void check_streams(const Golden& file, const Tokenizer& tokenizer, ParityRows& rows);

}  // namespace perigee
