#include "verify/metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"

namespace perigee::verifying {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kMaxManifestBytes = 64ull << 20;
constexpr const char* kConfig = "config.json";
constexpr const char* kHfQuantConfig = "hf_quant_config.json";
constexpr const char* kChecksums = "SHA256SUMS";

// The member of an object, or null.
const Json& member(const Json& object, const char* key) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  const auto at = object.find(key);
  return at == object.end() ? kNull : *at;
}
std::string text_member(const Json& object, const char* key) {
  const Json& value = member(object, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

class ManifestCheck {
 public:
  ManifestCheck(const std::filesystem::path& output, const TensorFacts& facts,
                std::span<const StoredModule> stored, FailureList& failures,
                std::vector<std::string>& warnings)
      : output_(output), facts_(facts), stored_(stored), failures_(failures), warnings_(warnings) {}

  void run() {
    if (!load(kConfig, config_)) return;
    const bool has_hf = std::filesystem::exists(output_ / kHfQuantConfig) && load(kHfQuantConfig, hf_);
    if (!facts_.has_experts) return;  // a part without experts: nothing that a manifest could contradict
    const Json& top = member(config_, "quantization_config");
    if (facts_.format == ExpertFormat::kMxfp4) {
      const Json& nested = member(member(config_, "text_config"), "quantization_config");
      check_mxfp4(nested.is_object() ? nested : top);
      return;
    }
    check_no_residue();
    if (facts_.format == ExpertFormat::kNvfp4CompressedTensors) {
      check_compressed_tensors(top);
    } else {
      check_modelopt(top, has_hf);
    }
    check_engines(top.is_null() && has_hf ? hf_ : config_);
  }

 private:
  void add(const char* file, std::string expected, std::string found, std::string message) {
    VerifyFailure failure;
    failure.check = "manifest";
    failure.file = file;
    failure.expected = std::move(expected);
    failure.found = std::move(found);
    failure.message = std::move(message);
    failures_.add(std::move(failure));
  }

  // False, after adding a failure, if the file is absent or no JSON object.
  bool load(const char* name, Json& json) {
    try {
      text_[name] = read_small_file(output_ / name, kMaxManifestBytes);
    } catch (const Error& error) {
      add(name, "present", "unreadable", error.what());
      return false;
    }
    json = Json::parse(text_[name], nullptr, false);
    if (json.is_object()) return true;
    add(name, "a JSON object", "something else", fmt::format("{} is not a JSON object", name));
    return false;
  }

  void check_mxfp4(const Json& manifest) {
    const std::string format = text_member(manifest, "format");
    if (format == "mxfp4-pack-quantized") return;
    add(kConfig, "mxfp4-pack-quantized", format,
        fmt::format("{}: experts are MXFP4, but the quantisation manifest says format \"{}\"", kConfig,
                    format));
  }

  // Engines give the nested manifest the last word, and take any mention of MXFP4 for the experts' format.
  void check_no_residue() {
    for (const char* part : {"text_config", "vision_config"}) {
      if (member(member(config_, part), "quantization_config").is_null()) continue;
      add(kConfig, "absent", "present",
          fmt::format("{}: {}.quantization_config is still there and overrides the new manifest; remove it",
                      kConfig, part));
    }
    for (const auto& [name, text] : text_) {
      std::string lower = text;
      std::transform(lower.begin(), lower.end(), lower.begin(),
                     [](unsigned char c) { return std::tolower(c); });
      const std::size_t at = lower.find("mxfp4");
      if (at == std::string::npos) continue;
      add(name.c_str(), "no mention of mxfp4", "mxfp4",
          fmt::format("{} mentions mxfp4 at byte {}; engines would load the experts as MXFP4", name, at));
    }
  }

  void check_activations(bool declared, const std::string& where) {
    if (declared == facts_.has_input_scales) return;
    if (declared) {
      add(kConfig, "input scales", "none",
          fmt::format(
              "{}: {} promises quantised activations, but no expert has an input scale; engines would use "
              "uninitialised ones",
              kConfig, where));
    } else {
      warnings_.push_back(
          fmt::format("{}: {} is weight-only, the experts' input scales will be ignored", kConfig, where));
    }
  }

  void check_compressed_tensors(const Json& manifest) {
    const std::string method = text_member(manifest, "quant_method"),
                      format = text_member(manifest, "format");
    if (method != "compressed-tensors" || format != "nvfp4-pack-quantized") {
      add(kConfig, "compressed-tensors, nvfp4-pack-quantized", fmt::format("{}, {}", method, format),
          fmt::format("{}: experts are in the compressed-tensors layout, but quant_method is \"{}\" and "
                      "format \"{}\"",
                      kConfig, method, format));
      return;
    }
    bool declared = false;
    for (const Json& group : member(manifest, "config_groups")) {
      declared = declared || !member(group, "input_activations").is_null();
    }
    check_activations(declared, "config_groups");
  }

  void check_modelopt(const Json& manifest, bool has_hf) {
    const Json& hf = member(hf_, "quantization");
    if (manifest.is_null() && has_hf) {
      warnings_.push_back(fmt::format("{} has no quantization_config; only {} has", kConfig, kHfQuantConfig));
      check_algorithm(kHfQuantConfig, hf);
    } else {
      const std::string method = text_member(manifest, "quant_method");
      if (!method.starts_with("modelopt")) {
        add(kConfig, "modelopt", method,
            fmt::format("{}: experts are in the ModelOpt layout, but quant_method is \"{}\"", kConfig,
                        method));
        return;
      }
      check_algorithm(kConfig, manifest);
    }
    if (has_hf) {
      check_hf(manifest, hf);
    } else {
      warnings_.push_back(fmt::format("there is no {}; older engines need it", kHfQuantConfig));
    }
  }

  // quant_algo is NVFP4, W4A16_NVFP4 or MIXED_PRECISION with quantized_layers.
  void check_algorithm(const char* file, const Json& manifest) {
    const std::string algorithm = text_member(manifest, "quant_algo");
    bool w4a4 = algorithm == "NVFP4", w4a16 = algorithm == "W4A16_NVFP4", fp8 = false;
    if (algorithm == "MIXED_PRECISION") {
      for (const Json& layer : member(manifest, "quantized_layers")) {
        const std::string of_layer = text_member(layer, "quant_algo");
        w4a4 = w4a4 || of_layer == "NVFP4";
        w4a16 = w4a16 || of_layer == "W4A16_NVFP4";
        fp8 = fp8 || of_layer == "FP8_PB_WO";
      }
    }
    if (!w4a4 && !w4a16) {
      add(file, "NVFP4, W4A16_NVFP4 or MIXED_PRECISION with quantized_layers", algorithm,
          fmt::format("{}: experts are NVFP4, but quant_algo \"{}\" does not say so", file, algorithm));
      return;
    }
    check_activations(w4a4, "quant_algo");
    if (fp8 == facts_.has_fp8_attention) return;
    add(file, facts_.has_fp8_attention ? "FP8_PB_WO for attention" : "no FP8_PB_WO",
        fp8 ? "FP8_PB_WO" : algorithm,
        facts_.has_fp8_attention
            ? fmt::format("{}: attention weights are FP8, but no quantized_layers entry says FP8_PB_WO", file)
            : fmt::format("{}: quantized_layers says FP8_PB_WO, but no attention weight is FP8", file));
  }

  void check_hf(const Json& manifest, const Json& hf) {
    for (const char* key : {"quant_algo", "kv_cache_quant_algo", "group_size", "exclude_modules"}) {
      if (hf.is_object() && hf.contains(key)) continue;
      add(kHfQuantConfig, key, "absent",
          fmt::format("{}: quantization.{} is missing; engines require it", kHfQuantConfig, key));
    }
    const std::string in_hf = text_member(hf, "quant_algo"), in_config = text_member(manifest, "quant_algo");
    if (manifest.is_object() && in_hf != in_config) {
      add(kHfQuantConfig, in_config, in_hf,
          fmt::format("{} says quant_algo \"{}\", {} says \"{}\"", kHfQuantConfig, in_hf, kConfig,
                      in_config));
    }
  }

  // Experts taken for something else make a checkpoint useless. A float matrix that a list leaves out does
  // harm only where the engine would quantise that layer at all, which lists made for one engine may rely on:
  // a warning.
  void check_engines(const Json& manifest) {
    const MatcherReport engines = check_exclusions(manifest, stored_);
    for (const MatcherFinding& finding : engines.findings) {
      if (finding.fault == MatcherFault::kLinearQuantised) {
        warnings_.push_back(
            fmt::format("{}: {} ({} such names)", kConfig, finding.text, engines.count(finding.fault)));
        break;
      }
    }
    std::uint64_t faults = engines.manifest_problems.size();
    std::string first = faults > 0 ? engines.manifest_problems.front() : "";
    for (const MatcherFinding& finding : engines.findings) {
      if (finding.fault == MatcherFault::kLinearQuantised) continue;
      ++faults;
      if (first.empty()) first = finding.text;
    }
    if (faults > 0) {
      add(kConfig, "every module loaded as it is stored", "names that engines would misjudge",
          fmt::format("{}: {}", kConfig, first));
    }
    for (const std::string& entry : engines.unchecked) {
      warnings_.push_back(fmt::format("{}: {}", kConfig, entry));
    }
  }

  const std::filesystem::path& output_;
  const TensorFacts& facts_;
  std::span<const StoredModule> stored_;
  FailureList& failures_;
  std::vector<std::string>& warnings_;
  std::map<std::string, std::string> text_;
  Json config_, hf_;
};

struct ChecksumLine {
  std::string hash, name;
  bool valid = false;
};

// "<64 hex>  <name>" or "<64 hex> *<name>".
ChecksumLine parse_line(const std::string& line) {
  ChecksumLine parsed;
  if (line.size() < 67 || line[64] != ' ' || (line[65] != ' ' && line[65] != '*')) return parsed;
  parsed.hash = line.substr(0, 64);
  parsed.name = line.substr(66);
  if (parsed.name.starts_with("./")) parsed.name.erase(0, 2);
  const std::filesystem::path path(parsed.name);
  const bool inside = !path.is_absolute() && std::find(path.begin(), path.end(), "..") == path.end();
  parsed.valid = inside && parsed.hash.find_first_not_of("0123456789abcdef") == std::string::npos;
  return parsed;
}

void add_checksum_failure(const std::string& name, std::string expected, std::string found,
                          std::string message, FailureList& failures) {
  VerifyFailure failure;
  failure.check = "checksum";
  failure.file = name;
  failure.expected = std::move(expected);
  failure.found = std::move(found);
  failure.message = std::move(message);
  failures.add(std::move(failure));
}

}  // namespace

void check_manifests(const std::filesystem::path& output, const TensorFacts& facts,
                     std::span<const StoredModule> stored, FailureList& failures,
                     std::vector<std::string>& warnings) {
  ManifestCheck(output, facts, stored, failures, warnings).run();
}

bool check_checksums(const std::filesystem::path& output, const std::map<std::string, std::string>& computed,
                     const CancelToken* cancel, FailureList& failures, std::vector<std::string>& warnings) {
  if (!std::filesystem::exists(output / kChecksums)) return false;
  std::istringstream lines(read_small_file(output / kChecksums, kMaxManifestBytes));
  std::uint64_t skipped = 0, number = 0;
  for (std::string text; std::getline(lines, text);) {
    ++number;
    if (!text.empty() && text.back() == '\r') text.pop_back();
    if (text.empty()) continue;
    const ChecksumLine line = parse_line(text);
    if (!line.valid) {
      add_checksum_failure(kChecksums, "<sha256>  <file>", text.substr(0, 80),
                           fmt::format("{} line {} is not a hash and a file name", kChecksums, number),
                           failures);
      continue;
    }
    const auto known = computed.find(line.name);
    if (known != computed.end() && known->second.empty()) {
      ++skipped;
      continue;
    }
    if (known == computed.end() && !std::filesystem::is_regular_file(output / line.name)) {
      add_checksum_failure(line.name, "present", "absent",
                           fmt::format("{} lists {}, which is missing", kChecksums, line.name), failures);
      continue;
    }
    const std::string found =
        known != computed.end() ? known->second : sha256_of_file(output / line.name, cancel);
    if (found == line.hash) continue;
    add_checksum_failure(
        line.name, line.hash, found,
        fmt::format("{}: SHA-256 is {}, {} says {}", line.name, found, kChecksums, line.hash), failures);
  }
  if (skipped > 0) {
    warnings.push_back(fmt::format("{} hashes of {} were not compared, because the files were not read whole",
                                   skipped, kChecksums));
  }
  return skipped == 0;
}

}  // namespace perigee::verifying
