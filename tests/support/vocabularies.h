// The two vocabularies that tests of text use, each loaded once. For tests only.
#pragma once

#include "text/tokenizer.h"

namespace perigee::test {

// The released vocabulary, which is not ours to commit; nullptr where it is absent, then tests skip.
const Tokenizer* k3_tokenizer();

// The small vocabulary of models/nano: the same format and special tokens, other ids.
const Tokenizer& nano_tokenizer();

}  // namespace perigee::test
