// Bytes that a model needs beside its weights, from its config alone: what memory plans are made of
// (experts/memory_plan.h). States are exact, activations an estimate from above.
#pragma once

#include <cstdint>

#include "checkpoint/config.h"
#include "compute/ops.h"

namespace perigee {

// Of one sequence that has seen this many tokens.
std::uint64_t state_bytes(const K3Config& config, std::uint64_t tokens, Precision precision);

// The part of it that grows, a token.
std::uint64_t cache_bytes_a_token(const K3Config& config, Precision precision);

// Of one token while its step runs.
std::uint64_t activation_bytes_a_token(const K3Config& config);

}  // namespace perigee
