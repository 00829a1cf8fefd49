#include "convert/exclude_list.h"

#include <fmt/format.h>

#include "base/error.h"
#include "convert/quantised_layers.h"

namespace perigee {
namespace {

using Patterns = std::vector<std::string>;

std::vector<std::uint64_t> dense_layers(const K3Config& config) {
  std::vector<std::uint64_t> layers;
  for (std::uint64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    if (!config.is_moe(layer)) layers.push_back(layer);
  }
  return layers;
}

// Experts only. No entry may be, or contain between its stars, a part of "mlp.experts" or
// "block_sparse_moe.experts", since vLLM also looks for substrings; a dense layer's entry keeps the dot
// before its number and after "mlp", so that layer 0 is not layer 10.
Patterns modelopt_list(const K3Config& config) {
  Patterns list = {"*self_attn*",   "*shared_experts*",         "*block_sparse_moe.gate",
                   "*mlp.gate",     "*routed_expert_down_proj", "*routed_expert_up_proj",
                   "*mlp_res_proj", "*self_attention_res_proj", "*output_attn_res_proj"};
  for (const std::uint64_t layer : dense_layers(config))
    list.push_back(fmt::format("*layers.{}.mlp.*", layer));
  for (const char* pattern : {"*lm_head", "*embed_tokens", "*vision_tower*", "*mm_projector*"}) {
    list.emplace_back(pattern);
  }
  return list;
}

// In the order, and with the aliases, of NVIDIA's published recipe with FP8 attention.
Patterns nvidia_list(const K3Config& config) {
  Patterns released = {
      "*block_sparse_moe.gate*",
      "*block_sparse_moe.routed_expert_up_proj*",
      "*block_sparse_moe.routed_expert_down_proj*",
      "*block_sparse_moe.routed_expert_norm*",
      "*block_sparse_moe.shared_experts*",
      "*self_attn.q_conv1d*",
      "*self_attn.k_conv1d*",
      "*self_attn.v_conv1d*",
      "*self_attn.o_norm*",
      "*self_attn.q_a_layernorm*",
      "*self_attn.kv_a_layernorm*",
      "*_res_proj*",
      "*_res_norm*",
      "*layernorm*",
  };
  for (const std::uint64_t layer : dense_layers(config)) {
    released.push_back(fmt::format("language_model.model.layers.{}.mlp.*", layer));
  }
  for (const char* pattern : {"language_model.lm_head", "vision_tower*", "mm_projector*"}) {
    released.emplace_back(pattern);
  }
  Patterns list;
  for (const std::string& pattern : released) {
    for (std::string& spelling : name_spellings(pattern)) list.push_back(std::move(spelling));
  }
  return list;
}

Patterns released_list() {
  return {"re:.*self_attn.*", "re:.*shared_experts.*", "re:.*mlp\\.(gate|up|gate_up|down)_proj.*",
          "re:.*lm_head.*",   "re:.*vision_tower.*",   "re:.*mm_projector.*"};
}

// The released list names none of the router, the latent projections and the residual projections, which
// engines forgive; a strict loader does not. "mlp\.gate" is the router after SGLang's renaming.
Patterns compressed_tensors_list() {
  Patterns list = released_list();
  for (const char* pattern :
       {"re:.*block_sparse_moe\\.gate.*", "re:.*mlp\\.gate.*", "re:.*routed_expert_.*", "re:.*mlp_res_proj.*",
        "re:.*self_attention_res_proj.*", "re:.*output_attn_res_proj.*"}) {
    list.emplace_back(pattern);
  }
  return list;
}

}  // namespace

std::vector<std::string> exclude_list(Layout layout, const K3Config& config) {
  switch (layout) {
    case Layout::kModelOpt:
      return modelopt_list(config);
    case Layout::kNvidiaMixed:
      return nvidia_list(config);
    case Layout::kCompressedTensors:
      return compressed_tensors_list();
    case Layout::kMxfp4:
      return released_list();
  }
  fail(ErrorCode::kInternal, "layout {} has no exclude list", static_cast<int>(layout));
}

}  // namespace perigee
