// What a layer is fed when there is no model in front of it: a residual stream of pseudo-random numbers with
// the shape that a trained one has. Always the same numbers, made of integers, on every machine.
#pragma once

#include <cstddef>
#include <cstdint>

#include "checkpoint/config.h"
#include "model/layers.h"

namespace perigee {

// Rows [first, first + count) of the stream in front of `layer`: the bank has as many blocks as have started
// before it. Each value is the sum of four uniform numbers (about normal, deviation 1), in one channel of 251
// thirty times as much, as in trained models; a bf16 number. A row does not depend on the others.
ResidualStream block_input(const K3Config& config, std::uint64_t layer, std::size_t first, std::size_t count);

}  // namespace perigee
