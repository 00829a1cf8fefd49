// How the prompt tokens of one step are shared: the lowest priority number takes what it needs, the rest goes
// to the next. Within a priority clients get equal parts, and what one does not need the others get; a
// client's own prompts are read one after the other.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace perigee {

struct PromptNeed {
  std::string_view client;
  int priority = 0;
  std::size_t tokens = 0;  // that could be read in this step
};

// Tokens for each of `needs`, which are in order of admission; together `budget` unless less is needed.
std::vector<std::size_t> share_prompt_budget(std::span<const PromptNeed> needs, std::size_t budget);

}  // namespace perigee
