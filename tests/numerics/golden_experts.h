// The source experts of the conversion goldens, grouped into the sets that share a tensor scale.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "numerics/expert_scan.h"
#include "support/mini_safetensors.h"
#include "support/paths.h"

namespace perigee::test {

inline std::filesystem::path convert_data() {
  return test::data_folder() / "convert";
}

struct ExpertModule {
  std::string name;  // "...experts.0.w1", without a tensor suffix
  std::vector<std::byte> packed;
  std::vector<std::byte> scales;
};

// w1 and w3 of an expert, or w2 alone.
struct ExpertSet {
  std::vector<ExpertModule> modules;
  Mxfp4Scan scan;  // sum over the modules, by the reference scan
};

std::vector<ExpertSet> read_expert_sets(const std::string& checkpoint);

}  // namespace perigee::test
