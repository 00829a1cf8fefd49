// What parts of a K3 model cost by counting: bytes that one token needs of them and multiply-adds of any
// number of tokens. Norms, activations and residuals count as nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "checkpoint/config.h"
#include "model/weights.h"

namespace perigee {

// The matrices that every token is multiplied with: without routed experts.
std::vector<Matrix> attention_matrices(const LayerWeights& w);
std::vector<Matrix> ffn_matrices(const LayerWeights& w);

// Weights of the layer's attention, and what a token reads and writes of its state: the recurrent state once
// each, or the latent cache of `positions` tokens.
std::uint64_t attention_bytes(const K3Config& config, const LayerWeights& w, std::size_t positions);

// Weights of the layer's feed-forward network that every token needs: without routed experts.
std::uint64_t ffn_bytes(const LayerWeights& w);

// Of `tokens` tokens that follow `position` others.
double attention_macs(const K3Config& config, const LayerWeights& w, std::size_t position,
                      std::size_t tokens);

// Without routed experts; of one token.
double ffn_macs(const LayerWeights& w);
double mlp_macs(const MlpWeights& w);

// Of one token: all of its routed experts.
double routed_macs(const K3Config& config);

}  // namespace perigee
