#include "support/real_index.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "support/temp_dir.h"

namespace perigee::test {

std::optional<std::map<std::string, std::vector<std::string>>> read_real_index(
    const std::filesystem::path& shared_data) {
  const std::filesystem::path compressed = shared_data / "k3" / "model.safetensors.index.json.gz";
  if (!std::filesystem::exists(compressed)) return std::nullopt;
  const TempDir folder;
  const std::filesystem::path plain = folder / "index.json";
  const std::string command = "gzip -dc '" + compressed.string() + "' > '" + plain.string() + "'";
  if (std::system(command.c_str()) != 0) return std::nullopt;
  const auto json = nlohmann::ordered_json::parse(read_small_file(plain, 200'000'000));
  std::map<std::string, std::vector<std::string>> names;
  for (const auto& [name, file] : json.at("weight_map").items())
    names[file.get<std::string>()].push_back(name);
  return names;
}

}  // namespace perigee::test
