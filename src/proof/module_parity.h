// bf16, module by module: each attention and FFN part is given its recorded input, because in a whole model
// of random weights one rounding can change an expert and with it everything behind.
#pragma once

#include <set>
#include <string>

#include "model/weights.h"
#include "proof/distances.h"
#include "proof/golden_values.h"

namespace perigee {

// Of every recorded attn_in and ffn_in under `prefix` ("bf16.short."). Adds the names that it compared with
// or fed to `used`.
void check_modules(const LoadedModel& weights, const Ops& ops, const GoldenValues& golden,
                   const std::string& prefix, Distances& distances, std::set<std::string>& used);

}  // namespace perigee
