#include "engines/matcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

namespace perigee {
namespace {

constexpr std::uint64_t kFindingsPerFault = 10;  // of each engine

struct Bank {
  std::string first, last;  // the names of the first and last module seen in it
};

// All modules, ordered so that a report does not depend on the order of shards.
struct Inventory {
  std::map<std::string, Bank> banks;                                 // "….experts" that are FP4
  std::map<std::string, std::map<std::string, StoredAs>> by_parent;  // parent -> last part -> format
};

Inventory sort_out(std::span<const StoredModule> modules) {
  static constexpr std::string_view kInBank = ".experts.";
  Inventory inventory;
  for (const StoredModule& module : modules) {
    const std::size_t bank_end = module.name.find(kInBank);
    if (bank_end != std::string::npos && module.stored == StoredAs::kFp4) {
      Bank& bank = inventory.banks[module.name.substr(0, bank_end + kInBank.size() - 1)];
      if (bank.first.empty() || module.name < bank.first) bank.first = module.name;
      if (module.name > bank.last) bank.last = module.name;
      continue;
    }
    const std::size_t dot = module.name.rfind('.');
    const std::string parent = dot == std::string::npos ? "" : module.name.substr(0, dot + 1);
    inventory.by_parent[parent][module.name.substr(parent.size())] = module.stored;
  }
  return inventory;
}

// Every way an engine may write a released name. Engines drop the outer prefixes, SGLang calls
// block_sparse_moe "mlp" and the projector's layers linear_1 and linear_2.
std::vector<std::string> runtime_names(const std::string& released, Engine engine) {
  std::vector<std::string> names = {released};
  for (const std::string_view prefix : {"language_model.", "language_model.model."}) {
    if (released.starts_with(prefix)) names.push_back(released.substr(prefix.size()));
  }
  const auto also_as = [&names](std::string_view old_part, std::string_view new_part) {
    const std::size_t count = names.size();
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = names[i].find(old_part);
      if (at == std::string::npos) continue;
      names.push_back(
          fmt::format("{}{}{}", names[i].substr(0, at), new_part, names[i].substr(at + old_part.size())));
    }
  };
  also_as("block_sparse_moe", "mlp");
  if (engine == Engine::kSglang) {
    also_as("mm_projector.proj.0", "mm_projector.linear_1");
    also_as("mm_projector.proj.2", "mm_projector.linear_2");
  }
  return names;
}

const char* expectation_text(Expectation expectation) {
  switch (expectation) {
    case Expectation::kFloat:
      return "as unquantised";
    case Expectation::kFp4:
      return "as packed FP4";
    case Expectation::kFp8:
      return "as FP8";
    case Expectation::kDisagree:
      break;
  }
  return "not at all, because its parts are not treated alike";
}

const char* stored_text(StoredAs stored) {
  switch (stored) {
    case StoredAs::kFloat:
      return "unquantised";
    case StoredAs::kFp4:
      return "packed FP4";
    case StoredAs::kFp8:
      return "FP8";
  }
  return "unknown";
}

// The fault in loading `stored` as `expectation`, if any.
std::optional<MatcherFault> judge(StoredAs stored, Expectation expectation, bool is_expert) {
  if (expectation == Expectation::kDisagree) return MatcherFault::kFusedDisagreement;
  const Expectation right = stored == StoredAs::kFloat ? Expectation::kFloat
                            : stored == StoredAs::kFp4 ? Expectation::kFp4
                                                       : Expectation::kFp8;
  if (expectation == right) return std::nullopt;
  if (stored == StoredAs::kFloat) return MatcherFault::kLinearQuantised;
  return is_expert && expectation == Expectation::kFloat ? MatcherFault::kExpertExcluded
                                                         : MatcherFault::kWrongFormat;
}

class EngineCheck {
 public:
  EngineCheck(Engine engine, ManifestReading reading, MatcherReport& report)
      : engine_(engine), reading_(std::move(reading)), report_(report) {}

  void run(const Inventory& inventory) {
    for (const auto& [name, bank] : inventory.banks) check_bank(name, bank);
    for (const auto& [parent, children] : inventory.by_parent) {
      for (const auto& [leaf, stored] : children) check_module(parent + leaf, stored, false);
      for (const FusedModule& fused : fused_modules(engine_)) check_fused(parent, children, fused);
    }
  }

 private:
  // compressed-tensors resolves a bank by the names its first expert would have in a Hugging Face model.
  void check_bank(const std::string& name, const Bank& bank) {
    check_module(name, StoredAs::kFp4, true);
    if (!reading_.per_expert_names) return;
    for (const char* part : {".0.gate_proj", ".0.up_proj", ".0.down_proj"}) {
      check_module(name + part, StoredAs::kFp4, true);
    }
    check_module(bank.first, StoredAs::kFp4, true);
    if (bank.last != bank.first) check_module(bank.last, StoredAs::kFp4, true);
  }

  void check_fused(const std::string& parent, const std::map<std::string, StoredAs>& children,
                   const FusedModule& fused) {
    std::optional<StoredAs> common;
    for (const std::string_view part : fused.parts) {
      const auto child = children.find(std::string(part));
      if (child == children.end()) return;  // this layer has no such fused module
      if (common && *common != child->second) {
        return add(MatcherFault::kFusedDisagreement, parent + std::string(fused.name),
                   fmt::format("{} stacks the parts of {}{}, which are stored in different formats",
                               engine_name(engine_), parent, fused.name));
      }
      common = child->second;
    }
    check_module(parent + std::string(fused.name), *common, false);
  }

  void check_module(const std::string& released, StoredAs stored, bool is_expert) {
    for (const std::string& name : runtime_names(released, engine_)) {
      ++report_.names_checked;
      const Expectation expectation = reading_.rules->expect(name);
      const auto fault = judge(stored, expectation, is_expert);
      if (!fault) continue;
      add(*fault, name,
          fmt::format("{} would load {} {}, but it is {}; correct the exclusion list", engine_name(engine_),
                      name, expectation_text(expectation), stored_text(stored)));
    }
  }

  void add(MatcherFault fault, std::string name, std::string text) {
    ++report_.counts[static_cast<int>(fault)];
    if (++seen_[static_cast<int>(fault)] > kFindingsPerFault) return;
    report_.findings.push_back({fault, engine_, std::move(name), std::move(text)});
  }

  Engine engine_;
  ManifestReading reading_;
  MatcherReport& report_;
  std::uint64_t seen_[kMatcherFaults] = {};
};

void append_new(std::vector<std::string>& list, const std::vector<std::string>& more) {
  for (const std::string& text : more) {
    if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
  }
}

// "…q_proj" and "weight" of "…q_proj.weight".
struct SplitName {
  std::string_view module, part;
};
SplitName split_name(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return {name, {}};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

bool is_embedding(std::string_view module) {
  return module.ends_with("embed_tokens") || module.ends_with("pos_emb");
}

}  // namespace

std::vector<StoredModule> stored_modules(std::span<const TensorInfo> tensors) {
  std::vector<StoredModule> modules;
  for (const TensorInfo& tensor : tensors) {
    const auto [module, part] = split_name(tensor.name);
    if (tensor.shape.size() != 2 || (part != "weight" && part != "weight_packed") || is_embedding(module))
      continue;
    const bool packed = part == "weight_packed" || tensor.dtype == DType::kU8 || tensor.dtype == DType::kF4;
    const StoredAs stored = packed                           ? StoredAs::kFp4
                            : tensor.dtype == DType::kF8E4M3 ? StoredAs::kFp8
                                                             : StoredAs::kFloat;
    modules.push_back({std::string(module), stored});
  }
  return modules;
}

bool MatcherReport::clean() const {
  return manifest_problems.empty() &&
         std::all_of(std::begin(counts), std::end(counts), [](std::uint64_t count) { return count == 0; });
}

std::string MatcherReport::first_problem() const {
  if (!manifest_problems.empty()) return manifest_problems.front();
  return findings.empty() ? std::string() : findings.front().text;
}

MatcherReport check_exclusions(const nlohmann::json& config, std::span<const StoredModule> modules) {
  const Inventory inventory = sort_out(modules);
  MatcherReport report;
  for (const Engine engine : {Engine::kVllm, Engine::kSglang}) {
    ManifestReading reading = read_manifest(config, engine);
    append_new(report.manifest_problems, reading.problems);
    append_new(report.unchecked, reading.unchecked);
    if (reading.rules != nullptr) EngineCheck(engine, std::move(reading), report).run(inventory);
  }
  return report;
}

}  // namespace perigee
