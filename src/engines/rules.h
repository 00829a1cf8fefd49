// How a serving engine decides, from the quantisation manifest in config.json, what a module's tensors are.
// Modelled on the behaviour of vLLM (August 2026) and SGLang (July 2026); docs/formats.md, "How engines match
// names". The manifest may be anybody's: nothing here throws for what it says.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace perigee {

enum class Engine { kVllm, kSglang };
const char* engine_name(Engine engine);

// What an engine expects to load into a module.
enum class Expectation {
  kFloat,
  kFp4,
  kFp8,
  kDisagree,  // a fused module whose parts are not treated alike; engines stop with an error
};

struct FusedModule {
  std::string_view name;
  std::vector<std::string_view> parts;
};
// The modules that an engine builds by stacking others.
const std::vector<FusedModule>& fused_modules(Engine engine);

class EngineRules {
 public:
  virtual ~EngineRules() = default;
  // `name` is a module name as the engine spells it, e.g. "model.layers.3.mlp.experts".
  virtual Expectation expect(std::string_view name) = 0;
};

struct ManifestReading {
  std::unique_ptr<EngineRules> rules;  // null if no rule can be drawn from the manifest
  bool per_expert_names = false;       // engines also look up the modules inside a bank of experts
  std::vector<std::string> problems;   // what is wrong with the manifest itself, one sentence each
  std::vector<std::string> unchecked;  // entries that this program cannot judge
};

// `config` is the parsed config.json, or hf_quant_config.json where that is all there is.
ManifestReading read_manifest(const nlohmann::json& config, Engine engine);

}  // namespace perigee
