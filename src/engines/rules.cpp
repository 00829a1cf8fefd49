#include "engines/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_set>

#include "engines/name_pattern.h"

namespace perigee {
namespace {

using nlohmann::json;

// A list longer than this is judged by its first entries; checking stays quick whatever a file says.
constexpr std::size_t kMaxEntries = 4096;
constexpr std::size_t kMaxRegexes = 256;

std::string_view last_part(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

std::string_view without_prefix(std::string_view name, std::string_view prefix) {
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

const FusedModule* find_fused(Engine engine, std::string_view leaf) {
  for (const FusedModule& fused : fused_modules(engine)) {
    if (fused.name == leaf) return &fused;
  }
  return nullptr;
}

// The names of the parts of a fused module, in its parent.
std::vector<std::string> part_names(std::string_view name, const FusedModule& fused) {
  const std::string_view parent = name.substr(0, name.size() - fused.name.size());
  std::vector<std::string> names;
  for (const std::string_view part : fused.parts) names.push_back(fmt::format("{}{}", parent, part));
  return names;
}

// True or false if `test` says the same of every part, nothing if it does not.
template <typename Test>
std::optional<bool> agreement(const std::vector<std::string>& parts, Test test) {
  const auto hits = std::count_if(parts.begin(), parts.end(), test);
  if (hits == 0) return false;
  if (hits == static_cast<std::ptrdiff_t>(parts.size())) return true;
  return std::nullopt;
}

std::optional<std::vector<std::string>> strings_of(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return std::nullopt;
  std::vector<std::string> strings;
  for (const json& entry : *found) {
    if (!entry.is_string()) return std::nullopt;
    strings.push_back(entry.get<std::string>());
  }
  return strings;
}

std::string string_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::vector<std::string> within_limits(std::vector<std::string> entries, ManifestReading& reading) {
  if (entries.size() > kMaxEntries) {
    reading.unchecked.push_back(fmt::format(
        "the exclusion list has {} entries; only the first {} were judged", entries.size(), kMaxEntries));
    entries.resize(kMaxEntries);
  }
  return entries;
}

void cannot_judge(ManifestReading& reading, std::string_view pattern) {
  reading.unchecked.push_back(fmt::format("cannot judge pattern \"{}\"", pattern.substr(0, 120)));
}

// --- ModelOpt exclusion lists
// -------------------------------------------------------------------------------------

class Exclusions {
 public:
  virtual ~Exclusions() = default;
  // Nothing if the engine would stop with an error.
  virtual std::optional<bool> excludes(std::string_view name) = 0;
};

// vLLM: a trailing "path*" becomes "path" and "path.*" when the list passes its weight-name mapper; then an
// exact match (of all parts, for a fused module), a plain substring, or fnmatch.
class VllmExclusions : public Exclusions {
 public:
  VllmExclusions(const std::vector<std::string>& list, ManifestReading& reading) {
    for (const std::string& entry : list) {
      const bool splits = entry.size() >= 2 && entry.ends_with('*') && entry[entry.size() - 2] != '.';
      if (!splits) {
        add(entry, reading);
        continue;
      }
      const std::string path = entry.substr(0, entry.size() - 1);
      add(path, reading);
      add(path + ".*", reading);
    }
  }

  std::optional<bool> excludes(std::string_view name) override {
    const auto exact = exactly(name);
    if (!exact || *exact) return exact;
    const std::string_view inner = without_prefix(name, "language_model.");
    for (const std::string& entry : entries_) {
      if (entry != name &&
          (name.find(entry) != std::string_view::npos || inner.find(entry) != std::string_view::npos)) {
        return true;
      }
    }
    return std::any_of(globs_.begin(), globs_.end(),
                       [&](NamePattern& glob) { return glob.matches_whole(name); });
  }

 private:
  void add(const std::string& entry, ManifestReading& reading) {
    entries_.push_back(entry);
    exact_.insert(entry);
    auto glob = NamePattern::glob(entry);
    if (!glob) return cannot_judge(reading, entry);
    globs_.push_back(std::move(*glob));
  }

  std::optional<bool> exactly(std::string_view name) const {
    const auto listed = [this](const std::string& entry) { return exact_.contains(entry); };
    if (const FusedModule* fused = find_fused(Engine::kVllm, last_part(name))) {
      return agreement(part_names(name, *fused), listed);
    }
    if (name.find("experts") == std::string_view::npos) return listed(std::string(name));
    // One listed module inside a bank of experts excludes the whole bank.
    return std::any_of(entries_.begin(), entries_.end(), [&](const std::string& entry) {
      return entry.find("experts") != std::string::npos && entry.find(name) != std::string::npos;
    });
  }

  std::vector<std::string> entries_;
  std::unordered_set<std::string> exact_;
  std::vector<NamePattern> globs_;
};

// SGLang: every entry is a regular expression in which "." is literal and "*" is ".*"; it must match the
// whole name, the name without "language_model.", or one dotted part. An entry that ends in a low-rank
// projection also excludes modules whose last part contains that word.
class SglangExclusions : public Exclusions {
 public:
  SglangExclusions(const std::vector<std::string>& list, ManifestReading& reading) {
    for (const std::string& entry : list) {
      add(entry, reading);
      if (entry.starts_with("language_model.")) {
        add(std::string(without_prefix(entry, "language_model.")), reading);
      }
      const std::string_view tail = last_part(entry);
      for (const std::string_view low_rank : {"q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj"}) {
        if (tail == low_rank) low_rank_tails_.emplace_back(tail);
      }
    }
  }

  std::optional<bool> excludes(std::string_view name) override {
    std::vector<std::string_view> candidates = {name, without_prefix(name, "language_model.")};
    for (std::string_view rest = name; !rest.empty();) {
      const std::size_t dot = rest.find('.');
      candidates.push_back(rest.substr(0, dot));
      rest = dot == std::string_view::npos ? std::string_view() : rest.substr(dot + 1);
    }
    for (NamePattern& pattern : patterns_) {
      for (const std::string_view candidate : candidates) {
        if (pattern.matches_whole(candidate)) return true;
      }
    }
    const std::string_view leaf = last_part(name);
    return std::any_of(low_rank_tails_.begin(), low_rank_tails_.end(),
                       [&](const std::string& tail) { return leaf.find(tail) != std::string_view::npos; });
  }

 private:
  void add(const std::string& entry, ManifestReading& reading) {
    std::string expression;
    for (const char byte : entry) {
      if (byte == '.') {
        expression += "\\.";
      } else if (byte == '*') {
        expression += ".*";
      } else {
        expression += byte;
      }
    }
    auto pattern = NamePattern::regex(expression);
    if (!pattern) return cannot_judge(reading, entry);
    patterns_.push_back(std::move(*pattern));
  }

  std::vector<NamePattern> patterns_;
  std::vector<std::string> low_rank_tails_;
};

std::unique_ptr<Exclusions> make_exclusions(Engine engine, const std::vector<std::string>& list,
                                            ManifestReading& reading) {
  if (engine == Engine::kVllm) return std::make_unique<VllmExclusions>(list, reading);
  return std::make_unique<SglangExclusions>(list, reading);
}

std::optional<Expectation> algorithm_expectation(const std::string& algorithm) {
  if (algorithm == "NVFP4" || algorithm == "W4A16_NVFP4") return Expectation::kFp4;
  if (algorithm.starts_with("FP8")) return Expectation::kFp8;
  return std::nullopt;
}

// One algorithm for everything that is not excluded.
class UniformRules : public EngineRules {
 public:
  UniformRules(std::unique_ptr<Exclusions> exclusions, Expectation stored)
      : exclusions_(std::move(exclusions)), stored_(stored) {}

  Expectation expect(std::string_view name) override {
    const auto excluded = exclusions_->excludes(name);
    if (!excluded) return Expectation::kDisagree;
    return *excluded ? Expectation::kFloat : stored_;
  }

 private:
  std::unique_ptr<Exclusions> exclusions_;
  Expectation stored_;
};

// An algorithm per module from `quantized_layers`; what is not in the table stays float. The order of
// look-ups is the engines': the name itself, the parts of a fused module, anything below the name, and in
// vLLM anything beside a bank of experts.
class MixedRules : public EngineRules {
 public:
  using Table = std::map<std::string, Expectation, std::less<>>;

  MixedRules(Engine engine, std::unique_ptr<Exclusions> exclusions, Table table)
      : engine_(engine), exclusions_(std::move(exclusions)), table_(std::move(table)) {}

  Expectation expect(std::string_view name) override {
    const auto excluded = exclusions_->excludes(name);
    if (!excluded) return Expectation::kDisagree;
    if (*excluded) return Expectation::kFloat;
    if (const auto found = table_.find(name); found != table_.end()) return found->second;
    if (const auto parts = parts_expectation(name)) return *parts;
    if (const auto below = below_expectation(fmt::format("{}.", name))) return *below;
    if (engine_ == Engine::kVllm && name.ends_with(".experts")) {
      const auto beside = below_expectation(std::string(name.substr(0, name.size() - 7)));
      if (beside) return *beside;
    }
    return Expectation::kFloat;
  }

 private:
  std::optional<Expectation> parts_expectation(std::string_view name) const {
    const FusedModule* fused = find_fused(engine_, last_part(name));
    if (fused == nullptr) return std::nullopt;
    std::set<Expectation> found;
    for (const std::string& part : part_names(name, *fused)) {
      if (const auto entry = table_.find(part); entry != table_.end()) found.insert(entry->second);
    }
    if (found.empty()) return std::nullopt;
    return found.size() == 1 ? *found.begin() : Expectation::kDisagree;
  }

  std::optional<Expectation> below_expectation(const std::string& prefix) const {
    const auto entry = table_.lower_bound(prefix);
    if (entry == table_.end() || !entry->first.starts_with(prefix)) return std::nullopt;
    return entry->second;
  }

  Engine engine_;
  std::unique_ptr<Exclusions> exclusions_;
  Table table_;
};

void read_mixed(const json& manifest, Engine engine, std::unique_ptr<Exclusions> exclusions,
                ManifestReading& reading) {
  const auto layers = manifest.find("quantized_layers");
  if (layers == manifest.end() || !layers->is_object() || layers->empty()) {
    reading.problems.emplace_back("quant_algo MIXED_PRECISION needs a table quantized_layers");
    return;
  }
  MixedRules::Table table;
  for (const auto& [name, entry] : layers->items()) {
    const std::string algorithm = entry.is_object() ? string_of(entry, "quant_algo") : std::string();
    const auto expectation = algorithm_expectation(algorithm);
    if (expectation) {
      table.emplace(name, *expectation);
    } else if (reading.problems.size() < 20) {
      reading.problems.push_back(
          fmt::format("quantized_layers names algorithm \"{}\" for {}", algorithm, name));
    }
  }
  reading.rules = std::make_unique<MixedRules>(engine, std::move(exclusions), std::move(table));
}

// `nested` is the form of hf_quant_config.json, which has its own name for the list.
void read_modelopt(const json& manifest, bool nested, Engine engine, ManifestReading& reading) {
  const char* key = nested ? "exclude_modules" : "ignore";
  auto list = strings_of(manifest, key);
  if (!list) {
    reading.problems.push_back(
        fmt::format("the list of excluded modules must be under \"{}\"; engines read no other name", key));
    list.emplace();
  }
  auto exclusions = make_exclusions(engine, within_limits(std::move(*list), reading), reading);
  const std::string algorithm = string_of(manifest, "quant_algo");
  if (algorithm == "MIXED_PRECISION") return read_mixed(manifest, engine, std::move(exclusions), reading);
  const auto stored = algorithm_expectation(algorithm);
  if (!stored) {
    reading.problems.push_back(
        fmt::format("quant_algo \"{}\" is none that engines have a path for", algorithm));
    return;
  }
  reading.rules = std::make_unique<UniformRules>(std::move(exclusions), *stored);
}

// --- compressed-tensors
// -------------------------------------------------------------------------------------------

// Exact names, "re:" expressions that must match from the start, and class names.
class TargetList {
 public:
  TargetList() = default;
  TargetList(const std::vector<std::string>& entries, ManifestReading& reading) {
    for (const std::string& entry : entries) {
      if (!entry.starts_with("re:")) {
        exact_.insert(entry);
        continue;
      }
      auto pattern = patterns_.size() < kMaxRegexes ? NamePattern::regex(entry.substr(3)) : std::nullopt;
      if (pattern) {
        patterns_.push_back(std::move(*pattern));
      } else {
        cannot_judge(reading, entry);
      }
    }
  }

  bool has(std::string_view name) {
    if (exact_.contains("Linear") || exact_.contains(std::string(name))) return true;
    return std::any_of(patterns_.begin(), patterns_.end(),
                       [&](NamePattern& pattern) { return pattern.matches_start(name); });
  }

  // A fused module is what its parts are, unless it is listed itself.
  std::optional<bool> has_fused(std::string_view name, Engine engine) {
    const FusedModule* fused = find_fused(engine, last_part(name));
    if (fused == nullptr || exact_.contains(std::string(name))) return has(name);
    return agreement(part_names(name, *fused), [this](const std::string& part) { return has(part); });
  }

 private:
  std::unordered_set<std::string> exact_;
  std::vector<NamePattern> patterns_;
};

class CompressedTensorsRules : public EngineRules {
 public:
  struct Group {
    TargetList targets;
    Expectation stored = Expectation::kFp4;
  };

  CompressedTensorsRules(Engine engine, TargetList ignored, std::vector<Group> groups)
      : engine_(engine), ignored_(std::move(ignored)), groups_(std::move(groups)) {}

  Expectation expect(std::string_view name) override {
    const auto ignored = ignored_.has_fused(name, engine_);
    if (!ignored) return Expectation::kDisagree;
    if (*ignored) return Expectation::kFloat;
    for (Group& group : groups_) {
      const auto hit = group.targets.has_fused(name, engine_);
      if (!hit) return Expectation::kDisagree;
      if (*hit) return group.stored;
    }
    return Expectation::kFloat;
  }

 private:
  Engine engine_;
  TargetList ignored_;
  std::vector<Group> groups_;
};

// What the weights of a config group are; nothing for a kind that is neither FP4 nor FP8.
std::optional<Expectation> group_expectation(const json& group) {
  const auto weights = group.find("weights");
  if (weights == group.end() || !weights->is_object() || string_of(*weights, "type") != "float")
    return std::nullopt;
  const auto bits = weights->find("num_bits");
  if (bits == weights->end() || !bits->is_number_integer()) return std::nullopt;
  if (*bits == 4) return Expectation::kFp4;
  if (*bits == 8) return Expectation::kFp8;
  return std::nullopt;
}

void read_compressed_tensors(const json& manifest, Engine engine, ManifestReading& reading) {
  reading.per_expert_names = true;
  auto ignore = strings_of(manifest, "ignore");
  if (!ignore) {
    reading.problems.emplace_back("\"ignore\" must be a list of module names and patterns");
    ignore.emplace();
  }
  const auto groups = manifest.find("config_groups");
  if (groups == manifest.end() || !groups->is_object() || groups->empty()) {
    reading.problems.emplace_back("\"config_groups\" is missing; engines would quantise nothing");
    return;
  }
  std::vector<CompressedTensorsRules::Group> parsed;
  for (const auto& [name, group] : groups->items()) {
    const auto targets = group.is_object() ? strings_of(group, "targets") : std::nullopt;
    const auto stored = group.is_object() ? group_expectation(group) : std::nullopt;
    if (!targets || !stored || parsed.size() >= 64) {
      reading.problems.push_back(
          fmt::format("config group \"{}\" has no targets or no 4 or 8 bit float weights", name));
      return;
    }
    parsed.push_back({TargetList(within_limits(*targets, reading), reading), *stored});
  }
  TargetList ignored(within_limits(std::move(*ignore), reading), reading);
  reading.rules = std::make_unique<CompressedTensorsRules>(engine, std::move(ignored), std::move(parsed));
}

const json* object_at(const json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found != object.end() && found->is_object() ? &*found : nullptr;
}

}  // namespace

const char* engine_name(Engine engine) {
  return engine == Engine::kVllm ? "vLLM" : "SGLang";
}

const std::vector<FusedModule>& fused_modules(Engine engine) {
  static const std::vector<FusedModule> vllm = {
      {"gate_up_proj", {"gate_proj", "up_proj"}},
      {"in_proj_qkvgfab", {"q_proj", "k_proj", "v_proj", "g_proj", "f_a_proj", "b_proj"}},
      {"fused_qkv_a_proj", {"q_a_proj", "kv_a_proj_with_mqa"}},
  };
  static const std::vector<FusedModule> sglang = {
      {"gate_up_proj", {"gate_proj", "up_proj"}},
      {"fused_qkvg_proj", {"q_proj", "k_proj", "v_proj", "g_proj"}},
      {"fused_qkv_a_proj_with_mqa", {"q_a_proj", "kv_a_proj_with_mqa"}},
  };
  return engine == Engine::kVllm ? vllm : sglang;
}

ManifestReading read_manifest(const json& config, Engine engine) {
  ManifestReading reading;
  const json* text_config = object_at(config, "text_config");
  const json* inner = text_config == nullptr ? nullptr : object_at(*text_config, "quantization_config");
  const json* outer = object_at(config, "quantization_config");
  const json* nested = object_at(config, "quantization");
  if (inner != nullptr && outer != nullptr) {
    reading.problems.emplace_back(
        "text_config holds a second quantization_config, which wins over the one at the top level");
  }
  const json* manifest = inner != nullptr ? inner : outer;
  if (manifest == nullptr && nested == nullptr) {
    reading.problems.emplace_back(
        "there is no quantization_config; engines would load every module as float");
    return reading;
  }
  if (manifest == nullptr) {
    read_modelopt(*nested, true, engine, reading);
    return reading;
  }
  const std::string method = string_of(*manifest, "quant_method");
  if (method.starts_with("modelopt")) {
    const json* inside = object_at(*manifest, "quantization");
    read_modelopt(inside != nullptr ? *inside : *manifest, inside != nullptr, engine, reading);
  } else if (method == "compressed-tensors") {
    read_compressed_tensors(*manifest, engine, reading);
  } else {
    reading.problems.push_back(
        fmt::format("quant_method \"{}\" is none of modelopt, modelopt_mixed and "
                    "compressed-tensors",
                    method.substr(0, 60)));
  }
  return reading;
}

}  // namespace perigee
