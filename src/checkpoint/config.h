// K3's config.json. Every size the program uses comes from here; a missing key is an error that names it,
// never a default (docs/formats.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace perigee {

struct VisionConfig {
  std::uint64_t vt_num_hidden_layers = 0, vt_hidden_size = 0, vt_intermediate_size = 0,
                vt_num_attention_heads = 0;
  std::uint64_t qkv_hidden_size = 0, mm_hidden_size = 0, text_hidden_size = 0, patch_size = 0;
  std::uint64_t init_pos_emb_height = 0, init_pos_emb_width = 0, init_pos_emb_time = 0;
  std::uint64_t merge_height = 0, merge_width = 0;  // merge_kernel_size
};

struct K3Config {
  // text_config
  std::uint64_t hidden_size = 0, num_hidden_layers = 0, vocab_size = 0;
  std::uint64_t num_attention_heads = 0, q_lora_rank = 0, kv_lora_rank = 0;
  std::uint64_t qk_nope_head_dim = 0, qk_rope_head_dim = 0, v_head_dim = 0;
  std::uint64_t intermediate_size = 0, first_k_dense_replace = 0, moe_layer_freq = 0;
  std::uint64_t num_experts = 0, num_experts_per_token = 0, num_shared_experts = 0;
  std::uint64_t moe_intermediate_size = 0, routed_expert_hidden_size = 0;
  std::uint64_t attn_res_block_size = 0, num_nextn_predict_layers = 0, max_position_embeddings = 0;
  double rms_norm_eps = 0, routed_scaling_factor = 0;
  double activation_situ_beta = 0, activation_situ_linear_beta = 0;
  bool tie_word_embeddings = false, moe_renormalize = false, mla_use_nope = false,
       mla_use_output_gate = false;
  // text_config.linear_attn_config
  std::uint64_t kda_num_heads = 0, kda_head_dim = 0, short_conv_kernel_size = 0;
  double gate_lower_bound = 0;
  std::vector<bool> is_mla;  // per 0-based layer; the file's full_attn_layers are 1-based
  VisionConfig vision;

  bool is_moe(std::uint64_t layer) const {
    return layer >= first_k_dense_replace && layer % moe_layer_freq == 0;
  }
  std::uint64_t moe_layers() const;
};

// Throws kCorrupt naming the file and the key: missing, of the wrong type, out of range, or contradictory (a
// layer in both or neither of kda_layers / full_attn_layers).
K3Config parse_config(std::string_view json, const std::string& origin);
K3Config load_config(const std::filesystem::path& path);

// How the routed experts of a checkpoint are stored, as its config.json / hf_quant_config.json say.
enum class ExpertFormat { kMxfp4, kNvfp4ModelOpt, kNvfp4CompressedTensors, kNone };
const char* expert_format_name(
    ExpertFormat format);  // "mxfp4", "nvfp4-modelopt", "nvfp4-compressed-tensors", "none"

// Reads the quantisation manifest wherever it may be: text_config.quantization_config, top level, or
// hf_quant_config.json beside it. kNone if there is no manifest; kUnsupported naming the method for any
// other. This is what the files *claim*; Inventory::detect_expert_format() says what the tensors are.
ExpertFormat read_manifest_format(const std::filesystem::path& checkpoint);

}  // namespace perigee
