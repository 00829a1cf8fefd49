#include "support/real_index.h"

#include <cstdlib>
#include <fstream>

#include "support/temp_dir.h"

namespace perigee::test {
namespace {

// Takes the next "…" of the line; empty if there is none.
std::string take_quoted(const std::string& line, std::size_t& at) {
  const std::size_t open = line.find('"', at);
  const std::size_t close = open == std::string::npos ? open : line.find('"', open + 1);
  if (close == std::string::npos) return {};
  at = close + 1;
  return line.substr(open + 1, close - open - 1);
}

}  // namespace

// Reads the text itself (one entry a line in the release) so that it shares nothing with the reader under
// test.
std::optional<std::map<std::string, std::vector<std::string>>> read_real_index(
    const std::filesystem::path& shared_data) {
  const std::filesystem::path compressed = shared_data / "k3" / "model.safetensors.index.json.gz";
  if (!std::filesystem::exists(compressed)) return std::nullopt;
  const TempDir folder;
  const std::filesystem::path plain = folder / "index.json";
  const std::string command = "gzip -dc '" + compressed.string() + "' > '" + plain.string() + "'";
  if (std::system(command.c_str()) != 0) return std::nullopt;
  std::ifstream lines(plain);
  std::map<std::string, std::vector<std::string>> names;
  for (std::string line; std::getline(lines, line);) {
    std::size_t at = 0;
    const std::string name = take_quoted(line, at);
    const std::string file = take_quoted(line, at);
    if (!file.empty()) names[file].push_back(name);
  }
  return names;
}

}  // namespace perigee::test
