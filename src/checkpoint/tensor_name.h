// The names of K3's tensors: what a name means, and the name of a thing. Exactly the released spellings are
// known (spec: annex of docs/formats.md); anything else is kUnknown and is reported, never guessed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace perigee {

struct K3Config;

// The class decides what conversion does with a tensor, and how sizes are summed for people.
enum class TensorClass {
  kExpert,             // block_sparse_moe.experts.{E}.w{1,2,3}.*
  kKdaLinear,          // self_attn.{q,k,v,b,f_a,f_b}_proj, and {g,o}_proj of any layer (see class_in_layer)
  kMlaLinear,          // self_attn.{q_a,q_b,kv_b}_proj, kv_a_proj_with_mqa
  kAttentionOther,     // conv1d, A_log, dt_bias, o_norm, q_a_layernorm, kv_a_layernorm
  kRouter,             // block_sparse_moe.gate.{weight,e_score_correction_bias}
  kLatent,             // block_sparse_moe.routed_expert_{down_proj,up_proj,norm}
  kSharedExperts,      // block_sparse_moe.shared_experts.*
  kDenseMlp,           // mlp.{gate,up,down}_proj
  kLayerNormResidual,  // input/post_attention layernorm, *_res_norm, *_res_proj (also output_attn_res_*)
  kEmbedding,          // embed_tokens, lm_head, model.norm
  kProjector,          // mm_projector.*
  kVision,             // vision_tower.*
  kUnknown,
};
const char* tensor_class_name(TensorClass tensor_class);  // "expert", "kda", "mla", ...

enum class Projection : std::uint8_t { kW1 = 1, kW2 = 2, kW3 = 3 };  // gate, down, up

// What a tensor of a quantised module holds.
enum class Part {
  kWeight,             // "weight": a plain weight, ModelOpt packed nibbles, or FP8
  kWeightPacked,       // "weight_packed"
  kWeightScale,        // "weight_scale"
  kWeightScale2,       // "weight_scale_2"       ModelOpt per-tensor multiplier
  kWeightGlobalScale,  // "weight_global_scale"  compressed-tensors per-tensor divisor
  kInputScale,         // "input_scale"
  kInputGlobalScale,   // "input_global_scale"
  kOther,              // anything that has no such suffix (A_log, dt_bias, biases)
};

struct TensorName {
  TensorClass tensor_class = TensorClass::kUnknown;
  Part part = Part::kOther;
  std::int32_t layer = -1;   // -1 outside layers
  std::int32_t expert = -1;  // kExpert only
  Projection projection = Projection::kW1;
  // The name without its part: "…experts.5.w1", "…self_attn.q_proj"; views the input.
  std::string_view module;
};

// `name` must outlive the result. Does not know whether layer and expert numbers are in range of a config.
// KDA and MLA layers both have a self_attn.g_proj and o_proj, which a name alone cannot tell apart: they are
// given as kKdaLinear here; class_in_layer() puts that right where it matters.
TensorName parse_tensor_name(std::string_view name);

// The class with g_proj and o_proj of the config's MLA layers as kMlaLinear. A layer beyond the config keeps
// its class.
TensorClass class_in_layer(const TensorName& name, const K3Config& config);

// "language_model.model.layers.{layer}.block_sparse_moe.experts.{expert}.w{1,2,3}"
std::string expert_module_name(std::uint64_t layer, std::uint64_t expert, Projection projection);

}  // namespace perigee
