#include "convert/metadata.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "convert/exclude_list.h"
#include "convert/quantised_layers.h"

namespace perigee {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 64;
constexpr int kNvfp4Group = 16;
constexpr const char* kManifestKey = "quantization_config";

// NVIDIA's tools look for this name in `producer`; engines ignore it. The version is the ModelOpt release
// whose files this reproduces. Who really made the checkpoint is in conversion_report.json and the model
// card.
json producer() {
  return {{"name", "modelopt"}, {"version", "0.47.0"}};
}

json parse_object(std::string_view text, const std::string& origin) {
  const auto limit_depth = [&origin](int depth, json::parse_event_t, json&) {
    if (depth > kMaxDepth)
      fail(ErrorCode::kCorrupt, "{}: JSON nests deeper than {} levels", origin, kMaxDepth);
    return true;
  };
  json parsed;
  try {
    parsed = json::parse(text, limit_depth);
  } catch (const json::exception& error) {
    fail(ErrorCode::kCorrupt, "{}: not valid JSON: {}", origin, error.what());
  }
  if (!parsed.is_object()) fail(ErrorCode::kCorrupt, "{}: must be a JSON object", origin);
  return parsed;
}

void remove_manifests(json& config) {
  config.erase(kManifestKey);
  for (const char* part : {"text_config", "vision_config"}) {
    if (const auto found = config.find(part); found != config.end() && found->is_object()) {
      found->erase(kManifestKey);
    }
  }
}

bool says_mxfp4(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char byte) {
    return static_cast<char>(byte >= 'A' && byte <= 'Z' ? byte + 32 : byte);
  });
  return text.find("mxfp4") != std::string::npos;
}

// vLLM dispatches to its MXFP4 path for such a word in any of several places, whatever the top level says.
void refuse_remains(const json& value, const std::string& path, const std::string& origin) {
  if (value.is_string() && says_mxfp4(value.get<std::string>())) {
    fail(ErrorCode::kUnsupported,
         "{}: {} still says \"{}\", which makes engines read the converted experts as MXFP4; edit the "
         "source's "
         "config.json",
         origin, path, value.get<std::string>());
  }
  if (!value.is_structured()) return;
  for (const auto& [key, child] : value.items()) {
    const std::string child_path = path + "/" + key;
    if (value.is_object() && (key == kManifestKey || says_mxfp4(key))) {
      fail(ErrorCode::kUnsupported,
           "{}: {} is a quantisation manifest in a place this converter does not rewrite; remove it from the "
           "source's "
           "config.json",
           origin, child_path);
    }
    refuse_remains(child, child_path, origin);
  }
}

json modelopt_number() {
  return {{"dynamic", false}, {"group_size", kNvfp4Group}, {"num_bits", 4}, {"type", "float"}};
}

json modelopt_group(const std::vector<std::string>& targets, Activations activations) {
  return {{"targets", targets},
          {"weights", modelopt_number()},
          {"input_activations", activations == Activations::kPlaceholder ? modelopt_number() : json()}};
}

const char* expert_algorithm(Activations activations) {
  return activations == Activations::kPlaceholder ? "NVFP4" : "W4A16_NVFP4";
}

// Engines read `ignore` from config.json; some tools look for the other key's name.
void put_excluded(json& manifest, const std::vector<std::string>& excluded) {
  manifest["ignore"] = excluded;
  manifest["exclude_modules"] = excluded;
}

json modelopt_manifest(const std::vector<std::string>& excluded, Activations activations) {
  json manifest = {{"quant_method", "modelopt"},
                   {"quant_algo", expert_algorithm(activations)},
                   {"producer", producer()},
                   {"group_size", kNvfp4Group},
                   {"kv_cache_scheme", nullptr},
                   {"config_groups", {{"group_0", modelopt_group({"Linear"}, activations)}}}};
  put_excluded(manifest, excluded);
  return manifest;
}

std::vector<std::string> spell_all(const std::vector<std::string>& modules) {
  std::vector<std::string> spelled;
  for (const std::string& module : modules) {
    for (std::string& name : name_spellings(module)) spelled.push_back(std::move(name));
  }
  std::sort(spelled.begin(), spelled.end());
  return spelled;
}

struct MixedLayers {
  std::vector<std::string> experts;    // every spelling, sorted
  std::vector<std::string> attention;  // with the fused names
};

MixedLayers mixed_layers(const K3Config& config) {
  std::vector<std::string> attention = fp8_projections(config);
  const std::vector<std::string> fused = fused_fp8_modules(config);
  attention.insert(attention.end(), fused.begin(), fused.end());
  return {spell_all(expert_banks(config)), spell_all(attention)};
}

json quantized_layers(const MixedLayers& layers, Activations activations) {
  json table = json::object();
  for (const std::string& name : layers.experts) {
    table[name] = {{"quant_algo", expert_algorithm(activations)}, {"group_size", kNvfp4Group}};
  }
  for (const std::string& name : layers.attention) table[name] = {{"quant_algo", "FP8_PB_WO"}};
  return table;
}

json mixed_manifest(const MixedLayers& layers, const std::vector<std::string>& excluded,
                    Activations activations) {
  json manifest = {{"quant_method", "modelopt_mixed"},
                   {"quant_algo", "MIXED_PRECISION"},
                   {"producer", producer()},
                   {"quantized_layers", quantized_layers(layers, activations)},
                   {"config_groups",
                    {{"group_0", modelopt_group(layers.experts, activations)},
                     {"group_1", {{"quant_algo", "FP8_PB_WO"}, {"targets", layers.attention}}}}}};
  put_excluded(manifest, excluded);
  return manifest;
}

// Exactly the keys of compressed-tensors' QuantizationArgs: one more and the whole config is refused.
json compressed_number(int group_size, const char* strategy, const char* scale_dtype, const char* observer) {
  return {{"actorder", nullptr},
          {"block_structure", nullptr},
          {"dynamic", false},
          {"group_size", group_size},
          {"num_bits", 4},
          {"observer", observer},
          {"observer_kwargs", json::object()},
          {"scale_dtype", scale_dtype},
          {"strategy", strategy},
          {"symmetric", true},
          {"type", "float"},
          {"zp_dtype", nullptr}};
}

json compressed_manifest(const char* format, const json& weights, const json& activations,
                         const std::vector<std::string>& excluded) {
  return {{"quant_method", "compressed-tensors"},
          {"format", format},
          {"quantization_status", "compressed"},
          {"global_compression_ratio", nullptr},
          {"kv_cache_scheme", nullptr},
          {"ignore", excluded},
          {"config_groups",
           {{"group_0",
             {{"format", format},
              {"targets", {"Linear"}},
              {"input_activations", activations},
              {"output_activations", nullptr},
              {"weights", weights}}}}}};
}

json nvfp4_compressed_manifest(const std::vector<std::string>& excluded, Activations activations) {
  static constexpr const char* kScale = "torch.float8_e4m3fn";
  const json weights = compressed_number(kNvfp4Group, "tensor_group", kScale, "memoryless_minmax");
  json inputs;
  if (activations == Activations::kPlaceholder) {
    inputs = compressed_number(kNvfp4Group, "tensor_group", kScale, "static_minmax");
    inputs["dynamic"] = "local";  // per block at run time, below the stored per-tensor scale
  }
  return compressed_manifest("nvfp4-pack-quantized", weights, inputs, excluded);
}

json released_manifest(const std::vector<std::string>& excluded) {
  return compressed_manifest("mxfp4-pack-quantized", compressed_number(32, "group", "torch.uint8", "minmax"),
                             nullptr, excluded);
}

json hf_quant_config(const char* algorithm, const std::vector<std::string>& excluded) {
  return {{"producer", producer()},
          {"quantization",
           {{"quant_algo", algorithm},
            {"kv_cache_quant_algo", nullptr},
            {"group_size", kNvfp4Group},
            {"exclude_modules", excluded}}}};
}

std::string to_text(const json& value) {
  return value.dump(2) + "\n";
}

void put_released_manifest(json& config, const std::vector<std::string>& excluded,
                           const std::string& origin) {
  const auto text = config.find("text_config");
  if (text == config.end() || !text->is_object()) {
    fail(ErrorCode::kCorrupt, "{}: text_config is missing; the MXFP4 manifest belongs inside it", origin);
  }
  (*text)[kManifestKey] = released_manifest(excluded);
}

}  // namespace

Metadata make_metadata(std::string_view source_json, const std::string& origin, const K3Config& config,
                       Layout layout, Activations activations) {
  json output = parse_object(source_json, origin);
  remove_manifests(output);
  const std::vector<std::string> excluded = exclude_list(layout, config);
  if (layout == Layout::kMxfp4) {
    put_released_manifest(output, excluded, origin);
    return {to_text(output), std::nullopt};
  }

  refuse_remains(output, "", origin);
  if (layout == Layout::kCompressedTensors) {
    output[kManifestKey] = nvfp4_compressed_manifest(excluded, activations);
    return {to_text(output), std::nullopt};
  }
  if (layout == Layout::kModelOpt) {
    output[kManifestKey] = modelopt_manifest(excluded, activations);
    return {to_text(output), to_text(hf_quant_config(expert_algorithm(activations), excluded))};
  }
  const MixedLayers layers = mixed_layers(config);
  output[kManifestKey] = mixed_manifest(layers, excluded, activations);
  json hf = hf_quant_config("MIXED_PRECISION", excluded);
  hf["quantization"]["quantized_layers"] = quantized_layers(layers, activations);
  return {to_text(output), to_text(hf)};
}

}  // namespace perigee
