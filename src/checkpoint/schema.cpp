// The released layout, tensor by tensor, in the order that the release writes (docs/formats.md). The order
// looks arbitrary and is: it is the order in which the released model's modules were saved, and keeping it
// makes synthetic and converted files comparable with the release. Nothing that reads a checkpoint may depend
// on it.
#include "checkpoint/schema.h"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/tensor_name.h"

namespace perigee {
namespace {

using Shape = std::vector<std::uint64_t>;

constexpr std::uint64_t kMxGroup = 32;  // weights that share one E8M0 byte

// Collects tensors whose names share a prefix.
class TensorList {
 public:
  explicit TensorList(std::string prefix) : prefix_(std::move(prefix)) {}

  void bf16(std::string_view name, Shape shape) { add(name, DType::kBF16, std::move(shape)); }
  void f32(std::string_view name, Shape shape) { add(name, DType::kF32, std::move(shape)); }
  void mxfp4(std::string_view module, std::uint64_t rows, std::uint64_t columns) {
    add(fmt::format("{}.weight_packed", module), DType::kU8, {rows, columns / 2});
    add(fmt::format("{}.weight_scale", module), DType::kU8, {rows, columns / kMxGroup});
  }
  void reserve(std::uint64_t count) { tensors_.reserve(count); }
  std::vector<TensorInfo> take() { return std::move(tensors_); }

 private:
  void add(std::string_view name, DType dtype, Shape shape) {
    TensorInfo tensor;
    tensor.name = prefix_ + std::string(name);
    tensor.dtype = dtype;
    tensor.shape = std::move(shape);
    tensors_.push_back(std::move(tensor));
  }

  std::string prefix_;
  std::vector<TensorInfo> tensors_;
};

void add_kda(TensorList& list, const K3Config& c) {
  const std::uint64_t width = c.kda_num_heads * c.kda_head_dim;
  for (const char* name : {"q", "k", "v"})
    list.bf16(fmt::format("self_attn.{}_proj.weight", name), {width, c.hidden_size});
  for (const char* name : {"q", "k", "v"}) {
    list.f32(fmt::format("self_attn.{}_conv1d.weight", name), {width, 1, c.short_conv_kernel_size});
  }
  list.bf16("self_attn.b_proj.weight", {c.kda_num_heads, c.hidden_size});
  list.f32("self_attn.o_norm.weight", {c.kda_head_dim});
  list.bf16("self_attn.o_proj.weight", {c.hidden_size, width});
  // One value per head; the release pads to head_dim entries with zeros.
  list.f32("self_attn.A_log", {std::max(c.kda_head_dim, c.kda_num_heads)});
  list.bf16("self_attn.f_a_proj.weight", {c.kda_head_dim, c.hidden_size});
  list.bf16("self_attn.f_b_proj.weight", {width, c.kda_head_dim});
  list.f32("self_attn.dt_bias", {width});
  list.bf16("self_attn.g_proj.weight", {width, c.hidden_size});
}

void add_mla_head(TensorList& list, const K3Config& c) {
  const std::uint64_t width = c.num_attention_heads * c.v_head_dim;
  list.bf16("self_attn.q_a_proj.weight", {c.q_lora_rank, c.hidden_size});
  list.bf16("self_attn.q_a_layernorm.weight", {c.q_lora_rank});
  list.bf16("self_attn.kv_a_layernorm.weight", {c.kv_lora_rank});
  list.bf16("self_attn.o_proj.weight", {c.hidden_size, width});
  if (c.mla_use_output_gate) list.bf16("self_attn.g_proj.weight", {width, c.hidden_size});
}

// The release writes these after the trunk of the feed-forward part.
void add_mla_tail(TensorList& list, const K3Config& c) {
  list.bf16("self_attn.q_b_proj.weight",
            {c.num_attention_heads * (c.qk_nope_head_dim + c.qk_rope_head_dim), c.q_lora_rank});
  list.bf16("self_attn.kv_a_proj_with_mqa.weight", {c.kv_lora_rank + c.qk_rope_head_dim, c.hidden_size});
  list.bf16("self_attn.kv_b_proj.weight",
            {c.num_attention_heads * (c.qk_nope_head_dim + c.v_head_dim), c.kv_lora_rank});
}

void add_norms_and_residuals(TensorList& list, const K3Config& c) {
  list.bf16("input_layernorm.weight", {c.hidden_size});
  list.bf16("post_attention_layernorm.weight", {c.hidden_size});
  list.bf16("self_attention_res_proj.weight", {1, c.hidden_size});
  list.bf16("mlp_res_proj.weight", {1, c.hidden_size});
  list.bf16("self_attention_res_norm.weight", {c.hidden_size});
  list.bf16("mlp_res_norm.weight", {c.hidden_size});
}

void add_dense_mlp(TensorList& list, const std::string& module, std::uint64_t hidden, std::uint64_t width) {
  list.bf16(module + ".gate_proj.weight", {width, hidden});
  list.bf16(module + ".down_proj.weight", {hidden, width});
  list.bf16(module + ".up_proj.weight", {width, hidden});
}

void add_moe_trunk(TensorList& list, const K3Config& c) {
  list.bf16("block_sparse_moe.gate.weight", {c.num_experts, c.hidden_size});
  list.f32("block_sparse_moe.gate.e_score_correction_bias", {c.num_experts});
  add_dense_mlp(list, "block_sparse_moe.shared_experts", c.hidden_size,
                c.num_shared_experts * c.moe_intermediate_size);
  list.bf16("block_sparse_moe.routed_expert_down_proj.weight", {c.routed_expert_hidden_size, c.hidden_size});
  list.bf16("block_sparse_moe.routed_expert_up_proj.weight", {c.hidden_size, c.routed_expert_hidden_size});
  list.bf16("block_sparse_moe.routed_expert_norm.weight", {c.routed_expert_hidden_size});
}

void add_experts(TensorList& list, const K3Config& c) {
  for (std::uint64_t expert = 0; expert < c.num_experts; ++expert) {
    const std::string module = fmt::format("block_sparse_moe.experts.{}", expert);
    list.mxfp4(module + ".w1", c.moe_intermediate_size, c.routed_expert_hidden_size);
    list.mxfp4(module + ".w2", c.routed_expert_hidden_size, c.moe_intermediate_size);
    list.mxfp4(module + ".w3", c.moe_intermediate_size, c.routed_expert_hidden_size);
  }
}

std::vector<TensorInfo> head_tensors(const K3Config& c) {
  TensorList list("language_model.");
  list.bf16("model.embed_tokens.weight", {c.vocab_size, c.hidden_size});
  list.bf16("model.norm.weight", {c.hidden_size});
  list.bf16("lm_head.weight", {c.vocab_size, c.hidden_size});
  list.bf16("model.output_attn_res_norm.weight", {c.hidden_size});
  list.bf16("model.output_attn_res_proj.weight", {1, c.hidden_size});
  return list.take();
}

std::vector<TensorInfo> projector_tensors(const VisionConfig& v) {
  const std::uint64_t merged = v.mm_hidden_size * v.merge_height * v.merge_width;
  TensorList list("mm_projector.");
  list.bf16("proj.0.weight", {merged, merged});
  list.bf16("proj.2.weight", {v.text_hidden_size, merged});
  list.bf16("post_norm.weight", {v.text_hidden_size});
  return list.take();
}

std::vector<TensorInfo> vision_tensors(const VisionConfig& v) {
  constexpr std::uint64_t kColours = 3;
  const std::uint64_t hidden = v.vt_hidden_size;
  TensorList list("vision_tower.");
  list.bf16("patch_embed.proj.weight", {hidden, kColours, v.patch_size, v.patch_size});
  list.bf16("patch_embed.pos_emb.weight", {v.init_pos_emb_height, v.init_pos_emb_width, hidden});
  for (std::uint64_t block = 0; block < v.vt_num_hidden_layers; ++block) {
    const std::string module = fmt::format("encoder.blocks.{}.", block);
    list.bf16(module + "norm0.weight", {hidden});
    list.bf16(module + "norm1.weight", {hidden});
    list.bf16(module + "mlp.fc0.weight", {v.vt_intermediate_size, hidden});
    list.bf16(module + "mlp.fc1.weight", {hidden, v.vt_intermediate_size});
    list.bf16(module + "wqkv.weight", {3 * v.qkv_hidden_size, hidden});
    list.bf16(module + "wo.weight", {hidden, v.qkv_hidden_size});
  }
  list.bf16("encoder.final_layernorm.weight", {hidden});
  return list.take();
}

}  // namespace

std::vector<TensorInfo> layer_tensors(const K3Config& config, std::uint64_t layer) {
  constexpr std::uint64_t kTrunkTensors = 28, kTensorsPerExpert = 6;
  const bool is_mla = config.is_mla.at(layer);
  const bool is_moe = config.is_moe(layer);
  TensorList list(fmt::format("language_model.model.layers.{}.", layer));
  list.reserve(kTrunkTensors + (is_moe ? config.num_experts * kTensorsPerExpert : 0));
  if (is_mla) add_mla_head(list, config);
  if (!is_mla) add_kda(list, config);
  add_norms_and_residuals(list, config);
  if (is_moe) add_moe_trunk(list, config);
  if (!is_moe) add_dense_mlp(list, "mlp", config.hidden_size, config.intermediate_size);
  if (is_mla) add_mla_tail(list, config);
  if (is_moe) add_experts(list, config);
  return list.take();
}

std::vector<SchemaShard> released_layout(const K3Config& config) {
  const std::uint64_t count = config.num_hidden_layers + 3;
  std::vector<SchemaShard> shards;
  shards.reserve(count);
  const auto add = [&](std::vector<TensorInfo> tensors) {
    assign_offsets(tensors);
    shards.push_back(
        {fmt::format("model-{:05}-of-{:06}.safetensors", shards.size() + 1, count), std::move(tensors)});
  };
  for (std::uint64_t layer = 0; layer < config.num_hidden_layers; ++layer) add(layer_tensors(config, layer));
  add(head_tensors(config));
  add(projector_tensors(config.vision));
  add(vision_tensors(config.vision));
  return shards;
}

}  // namespace perigee
