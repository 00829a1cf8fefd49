// Headers of safetensors files to be written.
#include <iterator>

#include "base/error.h"
#include "checkpoint/json_text.h"
#include "checkpoint/safetensors.h"

namespace perigee {
namespace {

void append_metadata(std::string& out, const std::map<std::string, std::string>& metadata) {
  out += "\"__metadata__\":{";
  bool first = true;
  for (const auto& [key, value] : metadata) {
    if (!first) out += ',';
    first = false;
    append_json_string(out, key);
    out += ':';
    append_json_string(out, value);
  }
  out += '}';
}

void append_tensor(std::string& out, const TensorInfo& tensor) {
  append_json_string(out, tensor.name);
  fmt::format_to(std::back_inserter(out), ":{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                 dtype_name(tensor.dtype), fmt::join(tensor.shape, ","), tensor.begin, tensor.end);
}

}  // namespace

std::uint64_t assign_offsets(std::vector<TensorInfo>& tensors) {
  std::uint64_t position = 0;
  for (TensorInfo& tensor : tensors) {
    const std::uint64_t bytes = tensor_bytes(tensor.name, tensor.dtype, tensor.shape);
    tensor.begin = position;
    if (__builtin_add_overflow(position, bytes, &position))
      fail(ErrorCode::kCorrupt, "the tensors up to {} have more than 2^64 bytes", quoted_name(tensor.name));
    tensor.end = position;
  }
  return position;
}

std::string serialize_safetensors_header(std::span<const TensorInfo> tensors,
                                         const std::map<std::string, std::string>& metadata) {
  std::string out(8, '\0');
  out += '{';
  if (!metadata.empty()) append_metadata(out, metadata);
  for (const TensorInfo& tensor : tensors) {
    if (out.back() != '{') out += ',';
    append_tensor(out, tensor);
  }
  out += '}';
  out.resize((out.size() + 7) / 8 * 8, ' ');
  std::uint64_t length = out.size() - 8;
  if (length > kMaxHeaderBytes) {
    fail(ErrorCode::kUnsupported,
         "a header of {} tensors would have {} bytes, more than the {} that the format allows; use more "
         "shards",
         tensors.size(), length, kMaxHeaderBytes);
  }
  for (std::size_t i = 0; i < 8; ++i, length >>= 8) out[i] = static_cast<char>(length & 0xFF);
  return out;
}

}  // namespace perigee
