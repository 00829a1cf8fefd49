// A folder of expected values written by hand for the byte vocabulary, one or two cases of each kind, all of
// them right; tests make one of them wrong. For tests only.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "support/temp_dir.h"

namespace perigee::test {

class SmallGoldens {
 public:
  SmallGoldens();

  // "chat/tool_codec.json" and so on; change at will before write().
  std::map<std::string, nlohmann::ordered_json> files;

  // Writes all of `files` and returns the folder.
  const std::filesystem::path& write() const;

 private:
  TempDir folder_;
};

}  // namespace perigee::test
