#include "experts/nibble_form.h"

#include <cstring>

#include "base/error.h"

namespace perigee {
namespace {

constexpr std::size_t kMxfp4Group = 32;
constexpr std::size_t kNvfp4Group = 16;

[[noreturn]] void fail_type(const TensorInfo& tensor, const char* wanted) {
  fail(ErrorCode::kUnsupported, "{} is of type {}; {} is what this program can run", tensor.name,
       dtype_name(tensor.dtype), wanted);
}

void check_shape(const TensorInfo& tensor, std::uint64_t rows, std::uint64_t columns) {
  const std::vector<std::uint64_t> expected = {rows, columns};
  if (tensor.shape != expected) {
    fail(ErrorCode::kUnsupported, "{} has shape {}, but config.json asks for {}", tensor.name,
         shape_text(tensor.shape), shape_text(expected));
  }
}

// A row must be whole groups: scales are counted through the rows.
void check_scales(const TensorInfo& scales, std::size_t rows, std::size_t columns, std::size_t group) {
  if (columns % group != 0) {
    fail(ErrorCode::kUnsupported, "{} has one scale for {} columns, but config.json asks for rows of {}",
         scales.name, group, columns);
  }
  check_shape(scales, rows, columns / group);
}

const TensorInfo* require(const FindTensor& find, const std::string& name, const std::string& origin) {
  const TensorInfo* tensor = find(name);
  if (tensor == nullptr) {
    fail(ErrorCode::kNotFound, "{} has no tensor {}, which config.json asks for", origin, name);
  }
  return tensor;
}

}  // namespace

NibbleForm find_nibble_form(const FindTensor& find, const std::string& module, std::size_t rows,
                            std::size_t columns, const std::string& origin) {
  NibbleForm form;
  form.values = find(module + ".weight_packed");
  if (form.values == nullptr) form.values = require(find, module + ".weight", origin);
  if (form.values->dtype != DType::kU8) fail_type(*form.values, "U8 (two 4-bit values)");
  check_shape(*form.values, rows, columns / 2);
  form.scales = require(find, module + ".weight_scale", origin);
  if (form.scales->dtype == DType::kU8 || form.scales->dtype == DType::kF8E8M0) {
    check_scales(*form.scales, rows, columns, kMxfp4Group);
    return form;
  }
  if (form.scales->dtype != DType::kF8E4M3) fail_type(*form.scales, "F8_E4M3 (NVFP4) or U8 (MXFP4)");
  form.format = WeightFormat::kNvfp4;
  check_scales(*form.scales, rows, columns, kNvfp4Group);
  form.global = find(module + ".weight_scale_2");
  form.global_divides = form.global == nullptr;
  if (form.global_divides) form.global = require(find, module + ".weight_global_scale", origin);
  if (form.global->dtype != DType::kF32 || form.global->elements() != 1) fail_type(*form.global, "one F32");
  return form;
}

float global_multiplier(const std::byte* global, bool divides) {
  float scale;
  std::memcpy(&scale, global, sizeof(scale));
  return divides ? 1.0f / scale : scale;
}

}  // namespace perigee
