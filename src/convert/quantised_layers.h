// The names under which engines look up how a module is quantised: every released name of an expert bank or
// an FP8 attention projection, the names of the modules that engines fuse from them, and the spellings that
// engines build from those at load time. Used to write metadata, never to check it (engines/matcher.h has its
// own idea of engines).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/config.h"

namespace perigee {

// "language_model.model.layers.L.block_sparse_moe.experts" of every MoE layer.
std::vector<std::string> expert_banks(const K3Config& config);

// The attention projections of every layer that the mixed layout stores in FP8, by released module name.
std::vector<std::string> fp8_projections(const K3Config& config);

// The names of modules that engines build by stacking `fp8_projections`: one per layer and fused name of
// which at least one part exists in that layer.
std::vector<std::string> fused_fp8_modules(const K3Config& config);

// Released name first, then without "language_model.model.", then with only "model."; each also with mlp in
// place of block_sparse_moe. Names outside the language model have one spelling.
std::vector<std::string> name_spellings(std::string_view released);

}  // namespace perigee
