#include "support/mini_safetensors.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace perigee::test {

template <typename T>
std::vector<T> MiniTensor::as() const {
  std::vector<T> values(data.size() / sizeof(T));
  if (!data.empty()) std::memcpy(values.data(), data.data(), values.size() * sizeof(T));
  return values;
}

template std::vector<float> MiniTensor::as<float>() const;
template std::vector<std::uint16_t> MiniTensor::as<std::uint16_t>() const;
template std::vector<std::uint32_t> MiniTensor::as<std::uint32_t>() const;

MiniTensors read_safetensors(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  std::uint64_t header_size = 0;
  if (bytes.size() < 8) throw std::runtime_error("no test data in " + file.string());
  std::memcpy(&header_size, bytes.data(), 8);
  const auto header = nlohmann::json::parse(bytes.substr(8, header_size));
  MiniTensors tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const std::uint64_t begin = entry.at("data_offsets").at(0);
    const std::uint64_t end = entry.at("data_offsets").at(1);
    const std::string data = bytes.substr(8 + header_size + begin, end - begin);
    if (data.size() != end - begin)
      throw std::runtime_error(name + " ends behind the end of " + file.string());
    MiniTensor& tensor = tensors[name];
    tensor.dtype = entry.at("dtype");
    tensor.shape = entry.at("shape").get<std::vector<std::uint64_t>>();
    tensor.data.resize(data.size());
    if (!data.empty()) std::memcpy(tensor.data.data(), data.data(), data.size());
  }
  return tensors;
}

MiniTensors read_safetensors_folder(const std::filesystem::path& folder) {
  MiniTensors all;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") all.merge(read_safetensors(entry.path()));
  }
  return all;
}

}  // namespace perigee::test
