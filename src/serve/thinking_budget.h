// Ends the model's thought after so many tokens, by leaving the sampler nothing but the close of the thought
// and the opening of the response.
#pragma once

#include <cstddef>

#include "engine/sampler.h"
#include "text/tokenizer.h"

namespace perigee {

// For a reply that begins inside the thought. What `inner` forbids stays forbidden; it may be empty. A
// character that is not complete is completed first.
TokenFilter with_thinking_budget(TokenFilter inner, std::size_t budget, const Tokenizer& tokenizer);

}  // namespace perigee
