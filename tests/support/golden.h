// Where the conversion goldens are: checkpoints and values made by compressed-tensors and ModelOpt. For tests
// only.
#pragma once

#include <filesystem>
#include <string>

namespace perigee::test {

inline std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(PERIGEE_TEST_DATA) / "convert" / name;
}

}  // namespace perigee::test
