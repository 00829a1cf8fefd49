#include "proof/golden_values.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"

namespace perigee {
namespace {

template <typename T>
void append_as_floats(std::span<const std::byte> bytes, std::vector<float>& values) {
  for (std::size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    values.push_back(static_cast<float>(value));
  }
}

}  // namespace

GoldenValues::GoldenValues(const std::filesystem::path& folder)
    : file_(SafetensorsFile::open(folder / "golden.safetensors")),
      json_(GoldenFile::read(folder / "golden.json")) {}

std::vector<std::string> GoldenValues::names() const {
  std::vector<std::string> names;
  for (const TensorInfo& tensor : file_.header.tensors) names.push_back(tensor.name);
  return names;
}

GoldenTensor GoldenValues::tensor(const std::string& name) const {
  const std::vector<std::byte> bytes = file_.read(name);
  const TensorInfo& info = *file_.header.find(name);
  GoldenTensor tensor{info.shape, {}};
  tensor.values.reserve(info.elements());
  switch (info.dtype) {
    case DType::kF32:
      append_as_floats<float>(bytes, tensor.values);
      break;
    case DType::kI32:
      append_as_floats<std::int32_t>(bytes, tensor.values);
      break;
    case DType::kI64:
      append_as_floats<std::int64_t>(bytes, tensor.values);
      break;
    default:
      fail(ErrorCode::kUnsupported, "{}: {} is neither F32, I32 nor I64", file_.file.path().string(), name);
  }
  return tensor;
}

double relative_l2(const float* found, const float* expected, std::size_t count) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double d = static_cast<double>(found[i]) - static_cast<double>(expected[i]);
    difference += d * d;
    size += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
  }
  if (difference == 0) return 0;
  const double relative = std::sqrt(difference / size);
  return std::isfinite(relative) ? relative : std::numeric_limits<double>::infinity();
}

}  // namespace perigee
