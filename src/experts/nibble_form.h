// The forms in which a checkpoint stores a 4-bit weight matrix (docs/formats.md): which tensors of a module
// hold its values, its block scales and its scale for the whole matrix, and what their shapes must be. The
// one place that knows; deliberately reads no tensor.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "checkpoint/safetensors.h"
#include "compute/matrix.h"

namespace perigee {

struct NibbleForm {
  WeightFormat format = WeightFormat::kMxfp4;  // or kNvfp4
  const TensorInfo* values = nullptr;          // U8 [rows, columns/2]
  const TensorInfo* scales = nullptr;          // [rows, columns/32] or [rows, columns/16]
  const TensorInfo* global = nullptr;          // one F32; kNvfp4 only
  bool global_divides = false;                 // compressed-tensors divides by it, ModelOpt multiplies
};

// Gives the tensor of that name, or nullptr.
using FindTensor = std::function<const TensorInfo*(const std::string& name)>;

// kNotFound, kUnsupported naming the tensor that is missing or is not what a matrix of [rows, columns] needs;
// `origin` says where it was looked for.
NibbleForm find_nibble_form(const FindTensor& find, const std::string& module, std::size_t rows,
                            std::size_t columns, const std::string& origin);

// The multiplier that Matrix::global_scale holds, of the four bytes of NibbleForm::global.
float global_multiplier(const std::byte* global, bool divides);

}  // namespace perigee
