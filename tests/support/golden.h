// Where the conversion goldens are: checkpoints and values made by compressed-tensors and ModelOpt. For tests
// only.
#pragma once

#include <filesystem>
#include <string>

#include "support/paths.h"

namespace perigee::test {

inline std::filesystem::path golden(const std::string& name) {
  return test::data_folder() / "convert" / name;
}

}  // namespace perigee::test
