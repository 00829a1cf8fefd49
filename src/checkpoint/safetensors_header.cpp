// The header of a safetensors file, from JSON to checked tensors. Rule numbers are those of docs/formats.md.
#include <algorithm>
#include <limits>

#include "base/error.h"
#include "checkpoint/json_walk.h"
#include "checkpoint/safetensors.h"

namespace perigee {
namespace {

// No software makes more; without a limit a header of "1,1,1,..." would cost many times its own size.
constexpr std::size_t kMaxDimensions = 64;
constexpr std::string_view kMetadataKey = "__metadata__";

// Turns the fields of the header into tensors and metadata.
class HeaderReader {
 public:
  HeaderReader(const std::string& origin, SafetensorsHeader& header) : origin_(origin), header_(header) {}

  void field(std::string_view key, JsonValue value) {
    if (key == kMetadataKey) {
      read_metadata(value);
    } else {
      header_.tensors.push_back(read_tensor(key, value));
    }
  }

 private:
  void read_metadata(JsonValue value) {
    if (has_metadata_) fail(ErrorCode::kCorrupt, "{}: \"__metadata__\" appears twice", origin_);
    has_metadata_ = true;
    for_each_field(json_object(value, origin_, "\"__metadata__\""),
                   [&](std::string_view key, JsonValue text) {
                     const std::string what = "__metadata__ entry " + quoted_name(key);
                     const std::string_view stored = json_string(text, origin_, what);
                     if (!header_.metadata.emplace(key, stored).second)
                       fail(ErrorCode::kCorrupt, "{}: {} appears twice", origin_, what);
                   });
  }

  TensorInfo read_tensor(std::string_view name, JsonValue value) {
    if (has_control_character(name))
      fail(ErrorCode::kCorrupt, "{}: the tensor name {} has a control character", origin_, quoted_name(name));
    TensorInfo tensor;
    tensor.name = name;
    const std::string what = "tensor " + quoted_name(name);
    bool has_dtype = false, has_shape = false, has_offsets = false;
    for_each_field(json_object(value, origin_, what), [&](std::string_view key, JsonValue member) {
      if (key == "dtype") {
        first_time(has_dtype, what, key);
        tensor.dtype = read_dtype(member, what);
      } else if (key == "shape") {
        first_time(has_shape, what, key);
        tensor.shape = read_integers(member, what + ": shape", kMaxDimensions);
      } else if (key == "data_offsets") {
        first_time(has_offsets, what, key);
        read_offsets(member, what, tensor);
      } else {
        fail(ErrorCode::kCorrupt, "{}: {} has the unknown key {}", origin_, what, quoted_name(key));
      }
    });
    require(has_dtype, what, "dtype");
    require(has_shape, what, "shape");
    require(has_offsets, what, "data_offsets");
    check_size(tensor, what);
    return tensor;
  }

  void first_time(bool& seen, const std::string& what, std::string_view key) const {
    if (seen) fail(ErrorCode::kCorrupt, "{}: {} has \"{}\" twice", origin_, what, key);
    seen = true;
  }

  void require(bool seen, const std::string& what, std::string_view key) const {
    if (!seen) fail(ErrorCode::kCorrupt, "{}: {} has no \"{}\"", origin_, what, key);
  }

  DType read_dtype(JsonValue value, const std::string& what) const {
    const std::string_view text = json_string(value, origin_, what + ": dtype");
    const std::optional<DType> dtype = parse_dtype(text);
    if (!dtype)
      fail(ErrorCode::kCorrupt, "{}: {} has the unknown dtype {}", origin_, what, quoted_name(text));
    return *dtype;
  }

  std::vector<std::uint64_t> read_integers(JsonValue value, const std::string& what, std::size_t most) const {
    std::vector<std::uint64_t> numbers;
    for (JsonValue element : json_array(value, origin_, what)) {
      if (numbers.size() == most)
        fail(ErrorCode::kCorrupt, "{}: {} has more than {} numbers", origin_, what, most);
      numbers.push_back(json_integer(element, origin_, what));
    }
    return numbers;
  }

  void read_offsets(JsonValue value, const std::string& what, TensorInfo& tensor) const {
    const std::vector<std::uint64_t> offsets = read_integers(value, what + ": data_offsets", 2);
    if (offsets.size() != 2) {
      fail(ErrorCode::kCorrupt, "{}: {}: data_offsets has {} numbers instead of 2", origin_, what,
           offsets.size());
    }
    tensor.begin = offsets[0];
    tensor.end = offsets[1];
    if (tensor.end < tensor.begin) {
      fail(ErrorCode::kCorrupt, "{}: {} ends at byte {} before it begins at {}", origin_, what, tensor.end,
           tensor.begin);
    }
  }

  // R6
  void check_size(const TensorInfo& tensor, const std::string& what) const {
    std::uint64_t needed = 0;
    try {
      needed = tensor_bytes(tensor.name, tensor.dtype, tensor.shape);
    } catch (const Error& error) {
      fail(error.code(), "{}: {}", origin_, error.what());
    }
    if (needed != tensor.bytes()) {
      fail(ErrorCode::kCorrupt, "{}: {} is {} {} and needs {} bytes, but its data_offsets give it {}",
           origin_, what, dtype_name(tensor.dtype), shape_text(tensor.shape), needed, tensor.bytes());
    }
  }

  const std::string& origin_;
  SafetensorsHeader& header_;
  bool has_metadata_ = false;
};

// A tensor without bytes belongs before the one that begins at the same place; otherwise the file's order
// stays.
void order_by_offset(std::vector<TensorInfo>& tensors) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
}

void build_lookup(SafetensorsHeader& header, const std::string& origin) {
  header.by_name.reserve(header.tensors.size());
  for (std::size_t i = 0; i < header.tensors.size(); ++i) {
    const std::string& name = header.tensors[i].name;
    if (!header.by_name.emplace(name, i).second)
      fail(ErrorCode::kCorrupt, "{}: tensor {} appears twice", origin, quoted_name(name));
  }
}

// R5: from 0 to the end of the file, without holes and without overlap.
void check_contiguous(const SafetensorsHeader& header, const std::string& origin) {
  std::uint64_t position = 0;
  const TensorInfo* previous = nullptr;
  for (const TensorInfo& tensor : header.tensors) {
    if (tensor.begin > position) {
      fail(ErrorCode::kCorrupt, "{}: {} bytes before tensor {} (data bytes {} to {}) belong to no tensor",
           origin, tensor.begin - position, quoted_name(tensor.name), position, tensor.begin);
    }
    if (tensor.begin < position) {
      fail(ErrorCode::kCorrupt, "{}: tensor {} begins at data byte {}, inside tensor {} which ends at {}",
           origin, quoted_name(tensor.name), tensor.begin, quoted_name(previous->name), position);
    }
    position = tensor.end;
    previous = &tensor;
  }
  if (position > header.data_bytes) {
    fail(ErrorCode::kCorrupt,
         "{}: the tensors need {} data bytes, but the file has only {} of them; it is truncated, download it "
         "again",
         origin, position, header.data_bytes);
  }
  if (position < header.data_bytes) {
    fail(ErrorCode::kCorrupt, "{}: {} bytes after the last tensor belong to no tensor", origin,
         header.data_bytes - position);
  }
}

}  // namespace

void check_header_length(std::uint64_t header_bytes, std::uint64_t file_bytes, const std::string& origin) {
  if (header_bytes > kMaxHeaderBytes) {
    fail(ErrorCode::kCorrupt, "{}: the header would have {} bytes, more than the {} that the format allows",
         origin, header_bytes, kMaxHeaderBytes);
  }
  if (file_bytes < 8 || header_bytes > file_bytes - 8) {
    fail(ErrorCode::kCorrupt,
         "{}: the header should have {} bytes, but the file has only {}; it is truncated", origin,
         header_bytes, file_bytes);
  }
}

std::uint64_t TensorInfo::elements() const {
  std::uint64_t product = 1;
  for (const std::uint64_t dimension : shape) product *= dimension;
  return product;
}

std::uint64_t tensor_bytes(std::string_view name, DType dtype, std::span<const std::uint64_t> shape) {
  std::uint64_t bits = 0;
  std::uint64_t elements = 1;
  bool overflow = false;
  for (const std::uint64_t dimension : shape)
    overflow = overflow || __builtin_mul_overflow(elements, dimension, &elements);
  overflow = overflow || __builtin_mul_overflow(elements, std::uint64_t{dtype_bits(dtype)}, &bits);
  if (overflow) {
    fail(ErrorCode::kCorrupt, "tensor {}: the size of {} {} overflows 64 bits", quoted_name(name),
         dtype_name(dtype), shape_text(shape));
  }
  if (bits % 8 != 0) {
    fail(ErrorCode::kCorrupt, "tensor {}: {} {} is not a whole number of bytes", quoted_name(name),
         dtype_name(dtype), shape_text(shape));
  }
  return bits / 8;
}

std::string shape_text(std::span<const std::uint64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

const TensorInfo* SafetensorsHeader::find(const std::string& name) const {
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : &tensors[found->second];
}

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> header_json, std::uint64_t file_bytes,
                                           const std::string& origin) {
  check_header_length(header_json.size(), file_bytes, origin);
  const std::string_view json(reinterpret_cast<const char*>(header_json.data()), header_json.size());
  if (!json.starts_with('{')) fail(ErrorCode::kCorrupt, "{}: the header does not begin with '{{'", origin);
  // R3: padding is spaces only; other white space could hide behind a reader that trims.
  if (json[json.find_last_not_of(' ')] != '}') {
    fail(ErrorCode::kCorrupt, "{}: the header does not end with '}}' and spaces", origin);
  }
  SafetensorsHeader header;
  header.data_offset = 8 + header_json.size();
  header.data_bytes = file_bytes - header.data_offset;
  HeaderReader reader(origin, header);
  walk_json(json, origin + ": the header",
            [&](std::string_view key, JsonValue value) { reader.field(key, value); });
  order_by_offset(header.tensors);
  build_lookup(header, origin);
  check_contiguous(header, origin);
  return header;
}

}  // namespace perigee
