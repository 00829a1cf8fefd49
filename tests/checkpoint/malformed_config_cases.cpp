#include <stdexcept>

#include "checkpoint/malformed_cases.h"

namespace perigee::test {
namespace {

// The valid config with one piece of text replaced.
std::string changed(const std::string& before, const std::string& after) {
  std::string text = valid_config();
  const std::size_t at = text.find(before);
  if (at == std::string::npos) throw std::logic_error("no " + before + " in the valid config");
  return text.replace(at, before.size(), after);
}

std::vector<MalformedCase> document_cases() {
  return {
      {"config-empty", "", " is not valid JSON: [json.exception.parse_error.101]"},
      {"config-truncated", valid_config().substr(0, 100),
       " is not valid JSON: [json.exception.parse_error.101]"},
      {"config-array", "[]", " is not a JSON object"},
      {"config-number", "1", " is not a JSON object"},
      {"config-text-after", valid_config() + "x", " is not valid JSON: [json.exception.parse_error.101]"},
      {"config-byte-order-mark", "\xEF\xBB\xBF" + valid_config(), " begins with a byte-order mark"},
      {"config-comment", "/**/" + valid_config(), " is not valid JSON: [json.exception.parse_error.101]"},
      {"config-invalid-utf8", changed("\"model_type\": \"kimi_k3\"", "\"model_type\": \"\xFF\""),
       " is not valid JSON: [json.exception.parse_error.101]"},
      {"config-key-twice", changed("\"hidden_size\": 64", "\"hidden_size\": 64, \"hidden_size\": 64"),
       " has the key \"hidden_size\" twice in one object"},
      {"config-key-twice-escaped",
       changed("\"hidden_size\": 64", "\"hidden_size\": 64, \"hidden\\u005fsize\": 64"),
       " has the key \"hidden_size\" twice in one object"},
      {"config-other-key-twice", changed("\"model_type\": \"kimi_k3\"", "\"x\": 1, \"x\": 1"),
       " has the key \"x\" twice in one object"},
      {"config-deep",
       changed("\"model_type\": \"kimi_k3\"", "\"x\": " + std::string(3000, '[') + std::string(3000, ']')),
       " is nested more than 32 deep"},
      {"config-no-text", R"({"vision_config":{}})", ": text_config is missing"},
      {"config-text-list", R"({"text_config":[]})", ": text_config is not an object"},
      {"config-no-linear", changed("\"linear_attn_config\"", "\"linear\""),
       ": text_config.linear_attn_config is missing"},
      {"config-no-vision", changed("\"vision_config\"", "\"vision\""), ": vision_config is missing"},
  };
}

std::vector<MalformedCase> value_cases() {
  const auto value = [](const std::string& name, const std::string& before, const std::string& after,
                        const std::string& sentence) {
    return MalformedCase{"config-" + name, changed(before, after), ": " + sentence};
  };
  return {
      value("size-zero", "\"hidden_size\": 64", "\"hidden_size\": 0",
            "text_config.hidden_size is 0, which is not from 1 to 1048576"),
      value("size-negative", "\"hidden_size\": 64", "\"hidden_size\": -64",
            "text_config.hidden_size is -64, which is not from 1 to 1048576"),
      value("size-float", "\"hidden_size\": 64", "\"hidden_size\": 64.0",
            "text_config.hidden_size is not an integer"),
      value("size-exponent", "\"hidden_size\": 64", "\"hidden_size\": 64e0",
            "text_config.hidden_size is not an integer"),
      value("size-text", "\"hidden_size\": 64", "\"hidden_size\": \"64\"",
            "text_config.hidden_size is not an integer"),
      value("size-null", "\"hidden_size\": 64", "\"hidden_size\": null",
            "text_config.hidden_size is not an integer"),
      value("size-true", "\"hidden_size\": 64", "\"hidden_size\": true",
            "text_config.hidden_size is not an integer"),
      value("size-huge", "\"hidden_size\": 64", "\"hidden_size\": 18446744073709551615",
            "text_config.hidden_size is 18446744073709551615, which is not from 1 to 1048576"),
      value("size-over-64-bits", "\"hidden_size\": 64", "\"hidden_size\": 18446744073709551616",
            "text_config.hidden_size is not an integer"),
      value("layers-huge", "\"num_hidden_layers\": 3", "\"num_hidden_layers\": 1000000000",
            "text_config.num_hidden_layers is 1000000000, which is not from 1 to 4096"),
      value("experts-huge", "\"num_experts\": 4", "\"num_experts\": 4000000000",
            "text_config.num_experts is 4000000000, which is not from 1 to 65536"),
      value("experts-of-layers-huge", "\"num_experts\": 4", "\"num_experts\": 1000",
            "4096 x 1000 experts are more than the 524288 that this program handles"),
      value("more-per-token-than-experts", "\"num_experts_per_token\": 2", "\"num_experts_per_token\": 5",
            "text_config.num_experts_per_token is 5, which is not from 1 to 4"),
      value("dense-beyond-layers", "\"first_k_dense_replace\": 1", "\"first_k_dense_replace\": 4",
            "text_config.first_k_dense_replace is 4, which is not from 0 to 3"),
      value("frequency-zero", "\"moe_layer_freq\": 1", "\"moe_layer_freq\": 0",
            "text_config.moe_layer_freq is 0, which is not from 1 to 4096"),
      value("boolean-number", "\"moe_renormalize\": true", "\"moe_renormalize\": 1",
            "text_config.moe_renormalize is not true or false"),
      value("eps-zero", "\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": 0",
            "text_config.rms_norm_eps is 0, which is not from 1e-20 to 1"),
      value("eps-text", "\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": \"1e-5\"",
            "text_config.rms_norm_eps is not a number"),
      value("gate-positive", "\"gate_lower_bound\": -5.0", "\"gate_lower_bound\": 5.0",
            "text_config.linear_attn_config.gate_lower_bound is 5, which is not from -1000000 to -1e-06"),
      value("layers-not-list", "\"kda_layers\": [1, 2]", "\"kda_layers\": 1",
            "text_config.linear_attn_config.kda_layers is not a list"),
      value("layers-zero-based", "\"kda_layers\": [1, 2]", "\"kda_layers\": [0, 1]",
            "text_config.linear_attn_config.kda_layers[0] is 0, which is not from 1 to 3"),
      value("layers-beyond", "\"kda_layers\": [1, 2]", "\"kda_layers\": [1, 4]",
            "text_config.linear_attn_config.kda_layers[1] is 4, which is not from 1 to 3"),
      value("layers-float", "\"kda_layers\": [1, 2]", "\"kda_layers\": [1, 2.0]",
            "text_config.linear_attn_config.kda_layers[1] is not an integer"),
      value("layer-in-both", "\"kda_layers\": [1, 2]", "\"kda_layers\": [1, 2, 3]",
            "layer 3 of text_config.linear_attn_config.full_attn_layers is listed twice"),
      value("layer-twice", "\"kda_layers\": [1, 2]", "\"kda_layers\": [1, 1, 2]",
            "layer 1 of text_config.linear_attn_config.kda_layers is listed twice"),
      value("layer-in-neither", "\"kda_layers\": [1, 2]", "\"kda_layers\": [1]",
            "layer 2 is in neither text_config.linear_attn_config.kda_layers nor "
            "text_config.linear_attn_config.full_attn_layers"),
      value("merge-one", "\"merge_kernel_size\": [2, 2]", "\"merge_kernel_size\": [2]",
            "vision_config.merge_kernel_size has 1 numbers instead of 2"),
      value("merge-number", "\"merge_kernel_size\": [2, 2]", "\"merge_kernel_size\": 2",
            "vision_config.merge_kernel_size is not a list"),
  };
}

// 4096 layers in the lists, so that the product of layers and experts is what is refused.
std::string many_layers(std::string text) {
  const std::string before = "\"num_hidden_layers\": 3";
  return text.replace(text.find(before), before.size(), "\"num_hidden_layers\": 4096");
}

}  // namespace

std::string valid_config() {
  return R"({
  "model_type": "kimi_k3",
  "text_config": {
    "hidden_size": 64, "num_hidden_layers": 3, "vocab_size": 128, "num_attention_heads": 2, "q_lora_rank": 16,
    "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "intermediate_size": 96,
    "first_k_dense_replace": 1, "moe_layer_freq": 1, "num_experts": 4, "num_experts_per_token": 2,
    "num_shared_experts": 2, "moe_intermediate_size": 32, "routed_expert_hidden_size": 32,
    "attn_res_block_size": 2, "num_nextn_predict_layers": 0, "max_position_embeddings": 256,
    "rms_norm_eps": 1e-05, "routed_scaling_factor": 1.0, "activation_situ_beta": 4.0,
    "activation_situ_linear_beta": 25.0, "tie_word_embeddings": false, "moe_renormalize": true,
    "mla_use_nope": true, "mla_use_output_gate": true,
    "linear_attn_config": {
      "num_heads": 2, "head_dim": 8, "short_conv_kernel_size": 4, "gate_lower_bound": -5.0,
      "kda_layers": [1, 2], "full_attn_layers": [3]
    }
  },
  "vision_config": {
    "vt_num_hidden_layers": 1, "vt_hidden_size": 16, "vt_intermediate_size": 32, "vt_num_attention_heads": 2,
    "qkv_hidden_size": 24, "mm_hidden_size": 16, "text_hidden_size": 64, "patch_size": 14,
    "init_pos_emb_height": 8, "init_pos_emb_width": 8, "init_pos_emb_time": 4, "merge_kernel_size": [2, 2]
  }
})";
}

std::vector<MalformedCase> malformed_configs() {
  std::vector<MalformedCase> all = document_cases();
  for (MalformedCase& value : value_cases()) {
    if (value.name == "config-experts-of-layers-huge") value.bytes = many_layers(value.bytes);
    all.push_back(value);
  }
  return all;
}

}  // namespace perigee::test
