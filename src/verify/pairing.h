// What modules must have in common: w1 and w3 of an expert are one matrix to an engine, which takes w1's
// tensor scale and input scale for both; and input scales are there for all modules or for none.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "verify/verify.h"

namespace perigee::verifying {

// Adds failures for pairs within `modules` (any order). `file` is named in them.
void check_pairs(std::span<const VerifiedModule> modules, ExpertFormat format, const std::string& file,
                 FailureList& failures);

// Those w1 and w3 whose partner is not in `modules`: their partner is in another file.
std::vector<VerifiedModule> without_partner(std::span<const VerifiedModule> modules);

}  // namespace perigee::verifying
