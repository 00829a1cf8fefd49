// What the quantisation manifests of a checkpoint say about its experts. Engines look in three places and the
// first wins: text_config, the top level of config.json, hf_quant_config.json (docs/formats.md).
#include "base/error.h"
#include "checkpoint/config.h"
#include "checkpoint/json_document.h"
#include "checkpoint/json_text.h"

namespace perigee {
namespace {

using nlohmann::json;

// The member `key` of an object, or null.
const json& member(const json& object, const char* key) {
  static const json absent;
  if (!object.is_object()) return absent;
  const auto found = object.find(key);
  return found == object.end() ? absent : *found;
}

std::string text_member(const json& object, const char* key, const std::string& origin) {
  const json& value = member(object, key);
  if (!value.is_string()) {
    fail(ErrorCode::kCorrupt, "{}: the quantisation manifest has no text \"{}\"", origin, key);
  }
  return value.get<std::string>();
}

[[noreturn]] void fail_method(const std::string& origin, const std::string& method,
                              const std::string& detail) {
  fail(ErrorCode::kUnsupported,
       "{}: experts quantised with {} {} are not supported; only MXFP4 and NVFP4 (ModelOpt or "
       "compressed-tensors)",
       origin, quoted_name(method), quoted_name(detail));
}

ExpertFormat format_of_modelopt(const std::string& algorithm, const std::string& method,
                                const std::string& origin) {
  for (const char* known : {"NVFP4", "W4A16_NVFP4", "MIXED_PRECISION"})
    if (algorithm == known) return ExpertFormat::kNvfp4ModelOpt;
  fail_method(origin, method, algorithm);
}

ExpertFormat format_of_compressed_tensors(const std::string& format, const std::string& origin) {
  if (format == "mxfp4-pack-quantized") return ExpertFormat::kMxfp4;
  if (format == "nvfp4-pack-quantized") return ExpertFormat::kNvfp4CompressedTensors;
  fail_method(origin, "compressed-tensors", format);
}

ExpertFormat format_of_manifest(const json& manifest, const std::string& origin) {
  const std::string method = text_member(manifest, "quant_method", origin);
  if (method == "mxfp4") return ExpertFormat::kMxfp4;
  if (method == "compressed-tensors")
    return format_of_compressed_tensors(text_member(manifest, "format", origin), origin);
  if (method == "modelopt" || method == "modelopt_mixed")
    return format_of_modelopt(text_member(manifest, "quant_algo", origin), method, origin);
  fail_method(origin, method, "");
}

}  // namespace

const char* expert_format_name(ExpertFormat format) {
  switch (format) {
    case ExpertFormat::kMxfp4:
      return "mxfp4";
    case ExpertFormat::kNvfp4ModelOpt:
      return "nvfp4-modelopt";
    case ExpertFormat::kNvfp4CompressedTensors:
      return "nvfp4-compressed-tensors";
    case ExpertFormat::kNone:
      return "none";
  }
  return "none";
}

ExpertFormat read_manifest_format(const std::filesystem::path& checkpoint) {
  const std::filesystem::path config_path = checkpoint / "config.json";
  const json config = load_json_document(config_path);
  const json& nested = member(member(config, "text_config"), "quantization_config");
  if (!nested.is_null()) return format_of_manifest(nested, config_path.string());
  const json& top = member(config, "quantization_config");
  if (!top.is_null()) return format_of_manifest(top, config_path.string());
  const std::filesystem::path hf_path = checkpoint / "hf_quant_config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(hf_path, ignored)) return ExpertFormat::kNone;
  const json hf = load_json_document(hf_path);
  const std::string algorithm = text_member(member(hf, "quantization"), "quant_algo", hf_path.string());
  return format_of_modelopt(algorithm, "modelopt", hf_path.string());
}

}  // namespace perigee
