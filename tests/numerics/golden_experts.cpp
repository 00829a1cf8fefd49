#include "numerics/golden_experts.h"

#include <map>

namespace perigee::test {

std::vector<ExpertSet> read_expert_sets(const std::string& checkpoint) {
  const MiniTensors tensors = read_safetensors_folder(convert_data() / checkpoint);
  const std::string suffix = ".weight_packed";
  std::map<std::string, ExpertSet> sets;
  for (const auto& [name, tensor] : tensors) {
    if (!name.ends_with(suffix)) continue;
    const std::string module = name.substr(0, name.size() - suffix.size());
    const std::string expert = module.substr(0, module.size() - 2);
    ExpertSet& set = sets[expert + (module.ends_with("w2") ? "w2" : "w13")];
    set.modules.push_back({module, tensor.data, tensors.at(module + ".weight_scale").data});
    scan_mxfp4_reference(set.modules.back().packed, set.modules.back().scales, set.scan);
  }
  std::vector<ExpertSet> list;
  for (auto& [key, set] : sets) list.push_back(std::move(set));
  return list;
}

}  // namespace perigee::test
