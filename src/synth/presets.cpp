// Sizes of the presets. They share K3's proportions where a test could depend on them: head_dim larger than
// the number of heads (so that A_log is padded), latent and expert widths that are multiples of 32, widths
// that are not multiples of 128.
#include <algorithm>

#include "base/error.h"
#include "synth/synth.h"

namespace perigee {
namespace {

constexpr std::uint64_t kGroup = 32;
// Layers 3, 7, 11, … and the last one are MLA.
constexpr std::uint64_t kMlaPeriod = 4;

K3Config common() {
  K3Config c;
  c.first_k_dense_replace = 1, c.moe_layer_freq = 1;
  c.num_shared_experts = 2, c.attn_res_block_size = 12;
  c.max_position_embeddings = 1048576;
  c.rms_norm_eps = 1e-5, c.routed_scaling_factor = 1;
  c.activation_situ_beta = 4, c.activation_situ_linear_beta = 25;
  c.moe_renormalize = true, c.mla_use_nope = true, c.mla_use_output_gate = true;
  c.short_conv_kernel_size = 4, c.gate_lower_bound = -5;
  c.vision.patch_size = 14, c.vision.init_pos_emb_time = 4;
  c.vision.merge_height = 2, c.vision.merge_width = 2;
  return c;
}

K3Config k3() {
  K3Config c = common();
  c.hidden_size = 7168, c.num_hidden_layers = 93, c.vocab_size = 163840;
  c.num_attention_heads = 96, c.q_lora_rank = 1536, c.kv_lora_rank = 512;
  c.qk_nope_head_dim = 128, c.qk_rope_head_dim = 64, c.v_head_dim = 128;
  c.kda_num_heads = 96, c.kda_head_dim = 128;
  c.intermediate_size = 33792, c.num_experts = 896, c.num_experts_per_token = 16;
  c.moe_intermediate_size = 3072, c.routed_expert_hidden_size = 3584;
  VisionConfig& v = c.vision;
  v.vt_num_hidden_layers = 27, v.vt_hidden_size = 1024, v.vt_intermediate_size = 4096;
  v.vt_num_attention_heads = 12, v.qkv_hidden_size = 1536, v.mm_hidden_size = 1024;
  v.init_pos_emb_height = 64, v.init_pos_emb_width = 64;
  return c;
}

K3Config slice() {
  K3Config c = k3();
  c.num_hidden_layers = 4, c.num_experts = 64, c.vocab_size = 1024, c.attn_res_block_size = 2;
  c.vision.vt_num_hidden_layers = 2;
  return c;
}

K3Config small() {
  K3Config c = common();
  c.hidden_size = 1024, c.num_hidden_layers = 8, c.vocab_size = 4096, c.attn_res_block_size = 3;
  c.num_attention_heads = 8, c.q_lora_rank = 256, c.kv_lora_rank = 128;
  c.qk_nope_head_dim = 64, c.qk_rope_head_dim = 32, c.v_head_dim = 64;
  c.kda_num_heads = 8, c.kda_head_dim = 64;
  c.intermediate_size = 2112, c.num_experts = 64, c.num_experts_per_token = 8;
  c.moe_intermediate_size = 384, c.routed_expert_hidden_size = 256;
  VisionConfig& v = c.vision;
  v.vt_num_hidden_layers = 4, v.vt_hidden_size = 128, v.vt_intermediate_size = 512;
  v.vt_num_attention_heads = 3, v.qkv_hidden_size = 192, v.mm_hidden_size = 128;
  v.init_pos_emb_height = 16, v.init_pos_emb_width = 16;
  return c;
}

K3Config tiny() {
  K3Config c = common();
  c.hidden_size = 160, c.num_hidden_layers = 4, c.vocab_size = 256, c.attn_res_block_size = 2;
  c.num_attention_heads = 4, c.q_lora_rank = 48, c.kv_lora_rank = 32;
  c.qk_nope_head_dim = 16, c.qk_rope_head_dim = 8, c.v_head_dim = 16;
  c.kda_num_heads = 4, c.kda_head_dim = 16;
  c.intermediate_size = 352, c.num_experts = 8, c.num_experts_per_token = 2;
  c.moe_intermediate_size = 96, c.routed_expert_hidden_size = 64;
  VisionConfig& v = c.vision;
  v.vt_num_hidden_layers = 2, v.vt_hidden_size = 32, v.vt_intermediate_size = 64;
  v.vt_num_attention_heads = 3, v.qkv_hidden_size = 48, v.mm_hidden_size = 32;
  v.init_pos_emb_height = 8, v.init_pos_emb_width = 8;
  return c;
}

K3Config preset_config(SynthPreset preset) {
  switch (preset) {
    case SynthPreset::kTiny:
      return tiny();
    case SynthPreset::kSmall:
      return small();
    case SynthPreset::kSlice:
      return slice();
    case SynthPreset::kK3:
      return k3();
  }
  fail(ErrorCode::kInternal, "no such preset");
}

void replace(std::uint64_t& size, const std::optional<std::uint64_t>& given, const char* name,
             std::uint64_t multiple, std::uint64_t least, std::uint64_t most) {
  if (!given) return;
  if (*given < least || *given > most || *given % multiple != 0) {
    fail(ErrorCode::kUsage, "{} {}: must be a multiple of {} from {} to {}", name, *given, multiple, least,
         most);
  }
  size = *given;
}

}  // namespace

K3Config synth_config(SynthPreset preset, const SynthSizes& sizes) {
  constexpr std::uint64_t kMaxWidth = std::uint64_t{1} << 20;
  constexpr std::uint64_t kLeastVocabulary = 256;  // the special tokens of the config
  K3Config c = preset_config(preset);
  replace(c.num_hidden_layers, sizes.layers, "--layers", 1, 1, 1024);
  replace(c.num_experts, sizes.experts, "--experts", 1, 1, 4096);
  replace(c.hidden_size, sizes.hidden, "--hidden", 1, 1, kMaxWidth);
  replace(c.moe_intermediate_size, sizes.moe_width, "--moe-width", kGroup, kGroup, kMaxWidth);
  replace(c.routed_expert_hidden_size, sizes.latent, "--latent", kGroup, kGroup, kMaxWidth);
  replace(c.intermediate_size, sizes.dense_width, "--dense-width", 1, 1, kMaxWidth);
  replace(c.num_attention_heads, sizes.heads, "--heads", 1, 1, 4096);
  c.kda_num_heads = c.num_attention_heads;
  replace(c.kda_head_dim, sizes.head_dim, "--head-dim", 1, 1, 4096);
  if (sizes.head_dim) c.qk_nope_head_dim = c.v_head_dim = c.kda_head_dim;
  replace(c.vocab_size, sizes.vocab, "--vocab", 1, kLeastVocabulary, std::uint64_t{1} << 24);
  replace(c.vision.vt_num_hidden_layers, sizes.vision_blocks, "--vision-blocks", 1, 1, 1024);
  c.num_experts_per_token = std::min(c.num_experts_per_token, c.num_experts);
  c.vision.text_hidden_size = c.hidden_size;
  for (std::uint64_t layer = 0; layer < c.num_hidden_layers; ++layer) {
    c.is_mla.push_back(layer % kMlaPeriod == kMlaPeriod - 1 || layer + 1 == c.num_hidden_layers);
  }
  return c;
}

}  // namespace perigee
