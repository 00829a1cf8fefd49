#include "synth/checkpoint_reader.h"

#include <algorithm>
#include <cstring>

#include "base/file.h"
#include "checkpoint/index.h"
#include "checkpoint/safetensors.h"
#include "support/temp_dir.h"

namespace perigee::test {

TensorBytes read_tensors(const std::filesystem::path& checkpoint) {
  TensorBytes tensors;
  for (const std::string& shard : load_index(checkpoint / kIndexFileName).shards) {
    const SafetensorsFile file = SafetensorsFile::open(checkpoint / shard);
    for (const TensorInfo& tensor : file.header.tensors) {
      const std::vector<std::byte> bytes = file.read(tensor.name);
      std::vector<std::uint8_t>& copy = tensors[tensor.name];
      copy.resize(bytes.size());
      std::memcpy(copy.data(), bytes.data(), bytes.size());
    }
  }
  return tensors;
}

TensorBytes make_tensors(const SynthOptions& options) {
  const TempDir folder;
  make_checkpoint(folder.path(), options);
  return read_tensors(folder.path());
}

std::map<std::string, std::string> read_files(const std::filesystem::path& folder) {
  constexpr std::uint64_t kMaxBytes = 64u << 20;
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files[entry.path().filename().string()] = read_small_file(entry.path(), kMaxBytes);
  }
  return files;
}

unsigned Module::code(std::size_t group, std::size_t element) const {
  const unsigned byte = packed[group * 16 + element / 2];
  return element % 2 == 0 ? byte & 15 : byte >> 4;
}

unsigned Module::largest_magnitude_code(std::size_t group) const {
  unsigned largest = 0;
  for (std::size_t element = 0; element < 32; ++element)
    largest = std::max(largest, code(group, element) & 7);
  return largest;
}

Module module_of(const TensorBytes& tensors, std::uint64_t layer, std::uint64_t expert,
                 Projection projection) {
  const std::string name = expert_module_name(layer, expert, projection);
  return {tensors.at(name + ".weight_packed"), tensors.at(name + ".weight_scale")};
}

std::vector<Module> all_modules(const TensorBytes& tensors) {
  std::vector<Module> modules;
  for (const auto& [text, bytes] : tensors) {
    const TensorName name = parse_tensor_name(text);
    if (name.part != Part::kWeightPacked) continue;
    modules.push_back({bytes, tensors.at(std::string(name.module) + ".weight_scale")});
  }
  return modules;
}

}  // namespace perigee::test
