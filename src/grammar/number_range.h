// Numbers between limits as regular languages of their digits: "minimum" and its kin.
#pragma once

#include <cstdint>
#include <optional>

#include "grammar/regex.h"

namespace perigee {

struct NumberRange {
  std::optional<std::int64_t> least, most;
  bool above_least = false;  // the limit itself is left out
  bool below_most = false;

  bool is_limited() const { return least || most; }
};

// Without superfluous zeros and without -0. No words if the range is empty.
RegexRef integers_in(const NumberRange& range);
// With a fraction or without, no exponent.
RegexRef numbers_in(const NumberRange& range);

}  // namespace perigee
