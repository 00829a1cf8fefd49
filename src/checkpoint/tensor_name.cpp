// A hand-written matcher instead of regular expressions: an index has half a million names, nearly all of
// them of experts, and the whole of it must be classified in a fraction of a second. It is not a validator of
// a checkpoint: it knows spellings, not which layers and experts a config has.
#include "checkpoint/tensor_name.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>

#include "checkpoint/config.h"

namespace perigee {
namespace {

constexpr std::string_view kLayersPrefix = "language_model.model.layers.";
constexpr std::string_view kExpertsPrefix = "block_sparse_moe.experts.";
constexpr std::string_view kVisionBlocksPrefix = "vision_tower.encoder.blocks.";

struct PartSpelling {
  std::string_view text;
  Part part;
};
constexpr std::array kParts = {
    PartSpelling{"weight_packed", Part::kWeightPacked},
    PartSpelling{"weight_scale", Part::kWeightScale},
    PartSpelling{"weight", Part::kWeight},
    PartSpelling{"weight_scale_2", Part::kWeightScale2},
    PartSpelling{"weight_global_scale", Part::kWeightGlobalScale},
    PartSpelling{"input_scale", Part::kInputScale},
    PartSpelling{"input_global_scale", Part::kInputGlobalScale},
};

struct Spelling {
  std::string_view text;
  TensorClass tensor_class;
};

// Modules of a layer that hold one tensor "weight" (attention projections in FP8 also a "weight_scale").
constexpr std::array kLayerModules = {
    Spelling{"input_layernorm", TensorClass::kLayerNormResidual},
    Spelling{"post_attention_layernorm", TensorClass::kLayerNormResidual},
    Spelling{"self_attention_res_norm", TensorClass::kLayerNormResidual},
    Spelling{"self_attention_res_proj", TensorClass::kLayerNormResidual},
    Spelling{"mlp_res_norm", TensorClass::kLayerNormResidual},
    Spelling{"mlp_res_proj", TensorClass::kLayerNormResidual},
    Spelling{"self_attn.q_proj", TensorClass::kKdaLinear},
    Spelling{"self_attn.k_proj", TensorClass::kKdaLinear},
    Spelling{"self_attn.v_proj", TensorClass::kKdaLinear},
    Spelling{"self_attn.g_proj", TensorClass::kKdaLinear},
    Spelling{"self_attn.o_proj", TensorClass::kKdaLinear},
    Spelling{"self_attn.b_proj", TensorClass::kKdaLinear},
    Spelling{"self_attn.f_a_proj", TensorClass::kKdaLinear},
    Spelling{"self_attn.f_b_proj", TensorClass::kKdaLinear},
    Spelling{"self_attn.q_a_proj", TensorClass::kMlaLinear},
    Spelling{"self_attn.q_b_proj", TensorClass::kMlaLinear},
    Spelling{"self_attn.kv_a_proj_with_mqa", TensorClass::kMlaLinear},
    Spelling{"self_attn.kv_b_proj", TensorClass::kMlaLinear},
    Spelling{"self_attn.q_conv1d", TensorClass::kAttentionOther},
    Spelling{"self_attn.k_conv1d", TensorClass::kAttentionOther},
    Spelling{"self_attn.v_conv1d", TensorClass::kAttentionOther},
    Spelling{"self_attn.o_norm", TensorClass::kAttentionOther},
    Spelling{"self_attn.q_a_layernorm", TensorClass::kAttentionOther},
    Spelling{"self_attn.kv_a_layernorm", TensorClass::kAttentionOther},
    Spelling{"block_sparse_moe.gate", TensorClass::kRouter},
    Spelling{"block_sparse_moe.routed_expert_down_proj", TensorClass::kLatent},
    Spelling{"block_sparse_moe.routed_expert_up_proj", TensorClass::kLatent},
    Spelling{"block_sparse_moe.routed_expert_norm", TensorClass::kLatent},
    Spelling{"block_sparse_moe.shared_experts.gate_proj", TensorClass::kSharedExperts},
    Spelling{"block_sparse_moe.shared_experts.up_proj", TensorClass::kSharedExperts},
    Spelling{"block_sparse_moe.shared_experts.down_proj", TensorClass::kSharedExperts},
    Spelling{"mlp.gate_proj", TensorClass::kDenseMlp},
    Spelling{"mlp.up_proj", TensorClass::kDenseMlp},
    Spelling{"mlp.down_proj", TensorClass::kDenseMlp},
};

// Tensors of a layer that are not a module's weight.
constexpr std::array kLayerParameters = {
    Spelling{"self_attn.A_log", TensorClass::kAttentionOther},
    Spelling{"self_attn.dt_bias", TensorClass::kAttentionOther},
    Spelling{"block_sparse_moe.gate.e_score_correction_bias", TensorClass::kRouter},
};

constexpr std::array kVisionBlockModules = {
    Spelling{"norm0", TensorClass::kVision},   Spelling{"norm1", TensorClass::kVision},
    Spelling{"wqkv", TensorClass::kVision},    Spelling{"wo", TensorClass::kVision},
    Spelling{"mlp.fc0", TensorClass::kVision}, Spelling{"mlp.fc1", TensorClass::kVision},
};

constexpr std::array kOuterModules = {
    Spelling{"language_model.model.embed_tokens", TensorClass::kEmbedding},
    Spelling{"language_model.lm_head", TensorClass::kEmbedding},
    Spelling{"language_model.model.norm", TensorClass::kEmbedding},
    Spelling{"language_model.model.output_attn_res_norm", TensorClass::kLayerNormResidual},
    Spelling{"language_model.model.output_attn_res_proj", TensorClass::kLayerNormResidual},
    Spelling{"mm_projector.proj.0", TensorClass::kProjector},
    Spelling{"mm_projector.proj.2", TensorClass::kProjector},
    Spelling{"mm_projector.post_norm", TensorClass::kProjector},
    Spelling{"vision_tower.patch_embed.proj", TensorClass::kVision},
    Spelling{"vision_tower.patch_embed.pos_emb", TensorClass::kVision},
    Spelling{"vision_tower.encoder.final_layernorm", TensorClass::kVision},
};

template <std::size_t N>
TensorClass find_class(const std::array<Spelling, N>& spellings, std::string_view text) {
  for (const Spelling& spelling : spellings) {
    if (spelling.text == text) return spelling.tensor_class;
  }
  return TensorClass::kUnknown;
}

std::optional<Part> find_part(std::string_view text) {
  for (const PartSpelling& spelling : kParts) {
    if (spelling.text == text) return spelling.part;
  }
  return std::nullopt;
}

bool take(std::string_view& rest, std::string_view prefix) {
  if (!rest.starts_with(prefix)) return false;
  rest.remove_prefix(prefix.size());
  return true;
}

// "12." with no sign, no leading zero and no overflow.
bool take_number(std::string_view& rest, std::int32_t& number) {
  if (rest.empty() || rest[0] < '0' || rest[0] > '9') return false;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (error != std::errc() || (rest[0] == '0' && end != rest.data() + 1)) return false;
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  return take(rest, ".");
}

std::string_view without_suffix(std::string_view name, std::size_t suffix) {
  return name.substr(0, name.size() - suffix);
}

// `rest` follows "…experts.": "5.w1.weight_packed".
TensorName parse_expert(std::string_view name, std::string_view rest, TensorName result) {
  if (!take_number(rest, result.expert)) return {};
  if (rest.size() < 4 || rest[0] != 'w' || rest[1] < '1' || rest[1] > '3' || rest[2] != '.') return {};
  result.projection = static_cast<Projection>(rest[1] - '0');
  rest.remove_prefix(3);
  const std::optional<Part> part = find_part(rest);
  if (!part) return {};
  result.part = *part;
  result.tensor_class = TensorClass::kExpert;
  result.module = without_suffix(name, rest.size() + 1);
  return result;
}

bool is_attention_projection(TensorClass tensor_class) {
  return tensor_class == TensorClass::kKdaLinear || tensor_class == TensorClass::kMlaLinear;
}

// "<module>.weight" with a module of `modules`; an attention projection may also have its FP8 "weight_scale".
template <std::size_t N>
TensorName parse_module(std::string_view name, std::string_view rest, const std::array<Spelling, N>& modules,
                        TensorName result) {
  const std::size_t dot = rest.rfind('.');
  if (dot == std::string_view::npos) return {};
  result.tensor_class = find_class(modules, rest.substr(0, dot));
  const std::string_view leaf = rest.substr(dot + 1);
  if (leaf == "weight") {
    result.part = Part::kWeight;
  } else if (leaf == "weight_scale" && is_attention_projection(result.tensor_class)) {
    result.part = Part::kWeightScale;
  } else {
    return {};
  }
  if (result.tensor_class == TensorClass::kUnknown) return {};
  result.module = without_suffix(name, rest.size() - dot);
  return result;
}

// `rest` follows "language_model.model.layers.": "12.self_attn.A_log".
TensorName parse_layer(std::string_view name, std::string_view rest) {
  TensorName result;
  if (!take_number(rest, result.layer)) return {};
  if (take(rest, kExpertsPrefix)) return parse_expert(name, rest, result);
  const TensorClass parameter = find_class(kLayerParameters, rest);
  if (parameter == TensorClass::kUnknown) return parse_module(name, rest, kLayerModules, result);
  result.tensor_class = parameter;
  result.module = name;
  return result;
}

}  // namespace

const char* tensor_class_name(TensorClass tensor_class) {
  switch (tensor_class) {
    case TensorClass::kExpert:
      return "expert";
    case TensorClass::kKdaLinear:
      return "kda";
    case TensorClass::kMlaLinear:
      return "mla";
    case TensorClass::kAttentionOther:
      return "attention-other";
    case TensorClass::kRouter:
      return "router";
    case TensorClass::kLatent:
      return "latent";
    case TensorClass::kSharedExperts:
      return "shared-experts";
    case TensorClass::kDenseMlp:
      return "dense-mlp";
    case TensorClass::kLayerNormResidual:
      return "norm-residual";
    case TensorClass::kEmbedding:
      return "embedding";
    case TensorClass::kProjector:
      return "projector";
    case TensorClass::kVision:
      return "vision";
    case TensorClass::kUnknown:
      return "unknown";
  }
  return "unknown";
}

TensorName parse_tensor_name(std::string_view name) {
  std::string_view rest = name;
  if (take(rest, kLayersPrefix)) return parse_layer(name, rest);
  if (take(rest, kVisionBlocksPrefix)) {
    std::int32_t block = 0;
    if (!take_number(rest, block)) return {};
    return parse_module(name, rest, kVisionBlockModules, {});
  }
  return parse_module(name, name, kOuterModules, {});
}

TensorClass class_in_layer(const TensorName& name, const K3Config& config) {
  if (name.tensor_class != TensorClass::kKdaLinear || name.layer < 0) return name.tensor_class;
  const auto layer = static_cast<std::size_t>(name.layer);
  const bool shared = name.module.ends_with(".g_proj") || name.module.ends_with(".o_proj");
  return shared && layer < config.is_mla.size() && config.is_mla[layer] ? TensorClass::kMlaLinear
                                                                        : TensorClass::kKdaLinear;
}

std::string expert_module_name(std::uint64_t layer, std::uint64_t expert, Projection projection) {
  return fmt::format("{}{}.{}{}.w{}", kLayersPrefix, layer, kExpertsPrefix, expert,
                     static_cast<int>(projection));
}

}  // namespace perigee
