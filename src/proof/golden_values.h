// A folder of recorded values of a model: golden.safetensors with tensors, golden.json with prompts. Read
// strictly, as every file of expected values: what cannot be read is an error, never left out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "proof/golden_file.h"

namespace perigee {

struct GoldenTensor {
  std::vector<std::uint64_t> shape;
  std::vector<float> values;  // of F32 or integers

  std::uint64_t rows() const { return shape.empty() ? 1 : shape.front(); }
  std::uint64_t row_size() const { return rows() == 0 ? 0 : values.size() / rows(); }
  const float* row(std::uint64_t index) const { return values.data() + index * row_size(); }
};

class GoldenValues {
 public:
  // kNotFound if a file is missing, kCorrupt if one is malformed.
  explicit GoldenValues(const std::filesystem::path& folder);

  std::vector<std::string> names() const;  // in the order of the file
  bool has(const std::string& name) const { return file_.header.find(name) != nullptr; }
  // kNotFound, or kUnsupported for a type that holds no plain numbers.
  GoldenTensor tensor(const std::string& name) const;
  const Golden& json() const { return json_.root(); }

 private:
  SafetensorsFile file_;
  GoldenFile json_;
};

// |found - expected| / |expected|; infinity where that is no number.
double relative_l2(const float* found, const float* expected, std::size_t count);

}  // namespace perigee
