// The golden model k3-mini: a small K3 and what the released modelling code computes from it. It lies beside
// the checkout of a developer; without it tests skip. For tests only.
#pragma once

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "compute/tensor.h"
#include "support/paths.h"

namespace perigee::test {

inline std::filesystem::path k3_mini_folder() {
  return shared_folder() / "goldens/k3-mini";
}

class K3MiniGolden {
 public:
  K3MiniGolden() : file_(SafetensorsFile::open(k3_mini_folder() / "golden.safetensors")) {
    std::ifstream(k3_mini_folder() / "golden.json") >> json_;
  }

  // As [product of the leading dimensions, last dimension]; F32 or integers.
  Tensor tensor(const std::string& name) const {
    const TensorInfo* info = file_.header.find(name);
    if (info == nullptr) throw std::runtime_error("no golden " + name);
    const std::vector<std::byte> bytes = file_.read(name);
    const std::size_t width = info->shape.empty() ? 1 : info->shape.back();
    Tensor values(info->elements() / width, width);
    for (std::size_t i = 0; i < values.values().size(); ++i) values.values()[i] = element(*info, bytes, i);
    return values;
  }
  // Names that begin so, in the order of the file.
  std::vector<std::string> keys(const std::string& prefix) const {
    std::vector<std::string> found;
    for (const TensorInfo& tensor : file_.header.tensors) {
      if (tensor.name.starts_with(prefix)) found.push_back(tensor.name);
    }
    return found;
  }

  std::vector<std::uint32_t> prompt(const std::string& name) const { return json_["prompts"][name]; }
  std::vector<std::size_t> logit_rows(const std::string& name) const { return json_["logit_rows"][name]; }
  const nlohmann::json& json() const { return json_; }

 private:
  static float element(const TensorInfo& info, const std::vector<std::byte>& bytes, std::size_t i) {
    if (info.dtype == DType::kF32) return at<float>(bytes, i);
    if (info.dtype == DType::kI64) return static_cast<float>(at<std::int64_t>(bytes, i));
    if (info.dtype == DType::kI32) return static_cast<float>(at<std::int32_t>(bytes, i));
    if (info.dtype == DType::kBF16) {
      const std::uint32_t bits = std::uint32_t{at<std::uint16_t>(bytes, i)} << 16;
      float value;
      std::memcpy(&value, &bits, 4);
      return value;
    }
    throw std::runtime_error("golden " + info.name + " has a type that the test does not read");
  }
  template <typename T>
  static T at(const std::vector<std::byte>& bytes, std::size_t i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    return value;
  }

  SafetensorsFile file_;
  nlohmann::json json_;
};

inline double relative_l2(const float* found, const float* expected, std::size_t count) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double d = static_cast<double>(found[i]) - expected[i];
    difference += d * d;
    size += static_cast<double>(expected[i]) * expected[i];
  }
  return std::sqrt(difference / size);
}

}  // namespace perigee::test
