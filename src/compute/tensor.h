// Activations: float32 rows in memory, one row per token. In bf16 mode the values are bf16 numbers, still
// kept as floats.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "compute/activation_memory.h"

namespace perigee {

// Views of [rows, width], row-major, contiguous.
struct Rows {
  float* data = nullptr;
  std::size_t rows = 0;
  std::size_t width = 0;
  float* operator[](std::size_t row) const { return data + row * width; }
  std::size_t size() const { return rows * width; }
};

struct ConstRows {
  const float* data = nullptr;
  std::size_t rows = 0;
  std::size_t width = 0;
  ConstRows() = default;
  ConstRows(const float* values, std::size_t row_count, std::size_t row_width)
      : data(values), rows(row_count), width(row_width) {}
  ConstRows(Rows other)
      : data(other.data), rows(other.rows), width(other.width) {}  // NOLINT: meant to convert
  const float* operator[](std::size_t row) const { return data + row * width; }
  std::size_t size() const { return rows * width; }
};

// Owns [rows, width] floats, zero at first.
class Tensor {
 public:
  Tensor() = default;
  Tensor(std::size_t rows, std::size_t width) : values_(rows * width), rows_(rows), width_(width) {}

  operator Rows() { return {values_.data(), rows_, width_}; }             // NOLINT: meant to convert
  operator ConstRows() const { return {values_.data(), rows_, width_}; }  // NOLINT: meant to convert
  float* operator[](std::size_t row) { return values_.data() + row * width_; }
  const float* operator[](std::size_t row) const { return values_.data() + row * width_; }
  std::size_t rows() const { return rows_; }
  std::size_t width() const { return width_; }
  std::span<float> values() { return values_; }
  std::span<const float> values() const { return values_; }

 private:
  std::vector<float, ActivationAllocator<float>> values_;
  std::size_t rows_ = 0;
  std::size_t width_ = 0;
};

}  // namespace perigee
