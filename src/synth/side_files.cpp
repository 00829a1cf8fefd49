// config.json has the released structure (docs/formats.md): the manifest of the experts is nested in
// text_config and layers are counted from 1. The code and tokenizer files are stand-ins that say so.
#include "synth/side_files.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace perigee::synth {
namespace {

using nlohmann::json;

// Distances of the special tokens from the end of the vocabulary, as in the release.
struct SpecialTokens {
  std::uint64_t bos, eos, media, pad;
  explicit SpecialTokens(std::uint64_t vocab)
      : bos(vocab - 256), eos(vocab - 254), media(vocab - 235), pad(vocab - 1) {}
};

json expert_manifest() {
  const json weights = {{"actorder", nullptr},
                        {"block_structure", nullptr},
                        {"dynamic", false},
                        {"group_size", 32},
                        {"num_bits", 4},
                        {"observer", "minmax"},
                        {"observer_kwargs", json::object()},
                        {"scale_dtype", "torch.uint8"},
                        {"strategy", "group"},
                        {"symmetric", true},
                        {"type", "float"},
                        {"zp_dtype", nullptr}};
  const json group = {{"format", "mxfp4-pack-quantized"},
                      {"input_activations", nullptr},
                      {"output_activations", nullptr},
                      {"targets", json::array({"Linear"})},
                      {"weights", weights}};
  return {{"config_groups", {{"group_0", group}}},
          {"format", "mxfp4-pack-quantized"},
          {"global_compression_ratio", nullptr},
          {"ignore", json::array({"re:.*self_attn.*", "re:.*shared_experts.*",
                                  R"(re:.*mlp\.(gate|up|gate_up|down)_proj.*)", "re:.*lm_head.*",
                                  "re:.*vision_tower.*", "re:.*mm_projector.*"})},
          {"kv_cache_scheme", nullptr},
          {"quant_method", "compressed-tensors"},
          {"quantization_status", "compressed"}};
}

json linear_attention(const K3Config& c) {
  json full = json::array(), kda = json::array();
  for (std::uint64_t layer = 0; layer < c.num_hidden_layers; ++layer)
    (c.is_mla[layer] ? full : kda).push_back(layer + 1);
  return {{"full_attn_layers", full},     {"gate_lower_bound", c.gate_lower_bound},
          {"head_dim", c.kda_head_dim},   {"kda_layers", kda},
          {"num_heads", c.kda_num_heads}, {"short_conv_kernel_size", c.short_conv_kernel_size},
          {"use_full_rank_gate", true}};
}

json text_config(const K3Config& c, const SpecialTokens& tokens) {
  return {{"activation_situ_beta", c.activation_situ_beta},
          {"activation_situ_linear_beta", c.activation_situ_linear_beta},
          {"architectures", json::array({"KimiLinearForCausalLM"})},
          {"attn_res_block_size", c.attn_res_block_size},
          {"auto_map",
           {{"AutoConfig", "configuration_kimi_k3.KimiLinearConfig"},
            {"AutoModelForCausalLM", "modeling_kimi_linear.KimiLinearForCausalLM"}}},
          {"bos_token_id", tokens.bos},
          {"dtype", "bfloat16"},
          {"eos_token_id", tokens.eos},
          {"first_k_dense_replace", c.first_k_dense_replace},
          {"hidden_act", "situ"},
          {"hidden_size", c.hidden_size},
          {"intermediate_size", c.intermediate_size},
          {"kv_lora_rank", c.kv_lora_rank},
          {"latent_moe_use_norm", true},
          {"linear_attn_config", linear_attention(c)},
          {"max_position_embeddings", c.max_position_embeddings},
          {"mla_use_nope", c.mla_use_nope},
          {"mla_use_output_gate", c.mla_use_output_gate},
          {"model_type", "kimi_linear"},
          {"moe_intermediate_size", c.moe_intermediate_size},
          {"moe_layer_freq", c.moe_layer_freq},
          {"moe_renormalize", c.moe_renormalize},
          {"moe_router_activation_func", "sigmoid"},
          {"num_attention_heads", c.num_attention_heads},
          {"num_expert_group", 1},
          {"num_experts", c.num_experts},
          {"num_experts_per_token", c.num_experts_per_token},
          {"num_hidden_layers", c.num_hidden_layers},
          {"num_key_value_heads", c.num_attention_heads},
          {"num_nextn_predict_layers", c.num_nextn_predict_layers},
          {"num_shared_experts", c.num_shared_experts},
          {"pad_token_id", tokens.pad},
          {"q_lora_rank", c.q_lora_rank},
          {"qk_nope_head_dim", c.qk_nope_head_dim},
          {"qk_rope_head_dim", c.qk_rope_head_dim},
          {"quantization_config", expert_manifest()},
          {"rms_norm_eps", c.rms_norm_eps},
          {"routed_expert_hidden_size", c.routed_expert_hidden_size},
          {"routed_scaling_factor", c.routed_scaling_factor},
          {"tie_word_embeddings", c.tie_word_embeddings},
          {"topk_group", 1},
          {"topk_method", "noaux_tc"},
          {"use_cache", true},
          {"use_grouped_topk", true},
          {"v_head_dim", c.v_head_dim},
          {"vocab_size", c.vocab_size}};
}

json vision_config(const VisionConfig& v) {
  return {{"activation_func", "gelu_pytorch_tanh"},
          {"attn_bias", false},
          {"init_pos_emb_height", v.init_pos_emb_height},
          {"init_pos_emb_time", v.init_pos_emb_time},
          {"init_pos_emb_width", v.init_pos_emb_width},
          {"linear_bias", false},
          {"merge_kernel_size", json::array({v.merge_height, v.merge_width})},
          {"merge_type", "sd2_tpool"},
          {"mlp_type", "mlp2"},
          {"mm_hidden_size", v.mm_hidden_size},
          {"mm_projector_type", "patchmergerv2"},
          {"norm_type", "rmsnorm"},
          {"patch_embed_proj_bias", false},
          {"patch_size", v.patch_size},
          {"pos_emb_interpolation_mode", "bilinear"},
          {"pos_emb_type", "divided_fixed"},
          {"projector_hidden_act", "gelu"},
          {"projector_ln_eps", 1e-5},
          {"qkv_hidden_size", v.qkv_hidden_size},
          {"text_hidden_size", v.text_hidden_size},
          {"vt_hidden_size", v.vt_hidden_size},
          {"vt_intermediate_size", v.vt_intermediate_size},
          {"vt_num_attention_heads", v.vt_num_attention_heads},
          {"vt_num_hidden_layers", v.vt_num_hidden_layers}};
}

json whole_config(const K3Config& c) {
  const SpecialTokens tokens(c.vocab_size);
  return {{"architectures", json::array({"KimiK3ForConditionalGeneration"})},
          {"auto_map",
           {{"AutoConfig", "configuration_kimi_k3.KimiK3Config"},
            {"AutoModel", "modeling_kimi_k3.KimiK3ForConditionalGeneration"},
            {"AutoModelForCausalLM", "modeling_kimi_k3.KimiK3ForConditionalGeneration"}}},
          {"bos_token_id", tokens.bos},
          {"dtype", "bfloat16"},
          {"eos_token_id", tokens.eos},
          {"ignore_index", -100},
          {"image_placeholder", "<|kimi_image_placeholder|>"},
          {"media_placeholder_token_id", tokens.media},
          {"model_type", "kimi_k3"},
          {"pad_token_id", tokens.pad},
          {"text_config", text_config(c, tokens)},
          {"tie_word_embeddings", c.tie_word_embeddings},
          {"vision_config", vision_config(c.vision)}};
}

std::string generation_config(const K3Config& c) {
  const SpecialTokens tokens(c.vocab_size);
  return json({{"bos_token_id", tokens.bos},
               {"eos_token_id", tokens.eos},
               {"max_length", c.max_position_embeddings}})
             .dump(2) +
         "\n";
}

std::string readme(const SynthOptions& options) {
  return fmt::format(
      "{}\n\nMade by `perigee synth` with seed {}. All weights are random numbers: this is test data, not a "
      "model.\n",
      kReadmeTitle, options.seed);
}

constexpr const char* kPythonStandIn =
    "# Synthetic stand-in made by `perigee synth`: the released checkpoint has its model code here.\n";
constexpr const char* kLicenseStandIn =
    "Synthetic test data made by `perigee synth`. It contains nothing of any released model.\n";
// Base64 of a token's bytes and its rank: the tokens a, b, c, d, ab, cd.
constexpr const char* kVocabularyStandIn = "YQ== 0\nYg== 1\nYw== 2\nZA== 3\nYWI= 4\nY2Q= 5\n";

}  // namespace

std::vector<SideFile> side_files(const K3Config& config, const SynthOptions& options) {
  return {{"README.md", readme(options)},
          {"LICENSE", kLicenseStandIn},
          {"config.json", whole_config(config).dump(2) + "\n"},
          {"generation_config.json", generation_config(config)},
          {"configuration_kimi_k3.py", kPythonStandIn},
          {"modeling_kimi_k3.py", kPythonStandIn},
          {"tiktoken.model", kVocabularyStandIn}};
}

}  // namespace perigee::synth
