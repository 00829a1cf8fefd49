// A second, independent reader of safetensors files for tests of anything but the reader: whole files into
// memory, no checks beyond what the tests' own data need. Never used by the program, never given untrusted
// files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace perigee::test {

struct MiniTensor {
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::vector<std::byte> data;

  // data as little-endian values of type T.
  template <typename T>
  std::vector<T> as() const;
};

using MiniTensors = std::map<std::string, MiniTensor>;

// Throws std::runtime_error or a JSON exception if the file is not as expected.
MiniTensors read_safetensors(const std::filesystem::path& file);
// All *.safetensors of a folder in one map.
MiniTensors read_safetensors_folder(const std::filesystem::path& folder);

}  // namespace perigee::test
