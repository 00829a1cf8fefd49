#include "model/memory_needs.h"

#include <algorithm>

#include "model/state.h"

namespace perigee {
namespace {

std::uint64_t mla_layers(const K3Config& config) {
  return static_cast<std::uint64_t>(std::ranges::count(config.is_mla, true));
}

}  // namespace

std::uint64_t cache_bytes_a_token(const K3Config& config, Precision precision) {
  return mla_layers(config) * (config.kv_lora_rank + config.qk_rope_head_dim) * cache_value_bytes(precision);
}

std::uint64_t state_bytes(const K3Config& config, std::uint64_t tokens, Precision precision) {
  const std::uint64_t width = config.kda_num_heads * config.kda_head_dim;
  const std::uint64_t kda = width * (config.kda_head_dim + 3 * (config.short_conv_kernel_size - 1));
  const std::uint64_t rows = (tokens + kMlaPiece - 1) / kMlaPiece * kMlaPiece;
  return (config.num_hidden_layers - mla_layers(config)) * kda * sizeof(float) +
         rows * cache_bytes_a_token(config, precision);
}

std::uint64_t activation_bytes_a_token(const K3Config& c) {
  // What runs through all layers: the block residuals, the prefix, the mixed and the normed input, the
  // output.
  const std::uint64_t blocks = (c.num_hidden_layers + c.attn_res_block_size - 1) / c.attn_res_block_size;
  const std::uint64_t stream = c.hidden_size * (blocks + 5);
  // The widest part of a layer: KDA's nine tensors, MLA's, the dense MLP or the experts, where in the worst
  // case all outputs of a token wait for the expert that is added first.
  const std::uint64_t kda = 9 * c.kda_num_heads * c.kda_head_dim;
  const std::uint64_t key = c.qk_nope_head_dim + c.qk_rope_head_dim;
  const std::uint64_t mla = c.num_attention_heads * (key + 3 * c.v_head_dim) + 2 * c.q_lora_rank +
                            3 * (c.kv_lora_rank + c.qk_rope_head_dim);
  const std::uint64_t dense = 3 * c.intermediate_size;
  const std::uint64_t moe = c.num_experts + c.routed_expert_hidden_size * (c.num_experts_per_token + 5) +
                            3 * c.moe_intermediate_size * (1 + c.num_shared_experts);
  return sizeof(float) * (stream + std::max({kda, mla, dense, moe}));
}

}  // namespace perigee
