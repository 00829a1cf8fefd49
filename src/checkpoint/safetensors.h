// Reading and writing safetensors files, strictly: every rule of the format is enforced, because a checkpoint
// comes from strangers. File = u64 little-endian header length N, N bytes of JSON, then the data buffer.
// Deliberately not a tensor library: it knows names, types, shapes and byte ranges, never values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/file.h"
#include "checkpoint/dtype.h"
#include "checkpoint/name_hash.h"

namespace perigee {

// The format's own limit on N; a larger header is refused before anything is allocated.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

struct TensorInfo {
  std::string name;
  DType dtype = DType::kU8;
  std::vector<std::uint64_t> shape;  // empty = scalar; row-major, last dimension fastest
  std::uint64_t begin = 0;           // byte range in the data buffer, [begin, end)
  std::uint64_t end = 0;

  std::uint64_t bytes() const { return end - begin; }
  std::uint64_t elements() const;  // product of the shape; 1 for a scalar
};

// Bytes that dtype and shape need; kCorrupt (naming `name`) on overflow or a fraction of a byte.
std::uint64_t tensor_bytes(std::string_view name, DType dtype, std::span<const std::uint64_t> shape);

// "[3072, 1792]"
std::string shape_text(std::span<const std::uint64_t> shape);

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;              // by offset; ranges are contiguous from 0
  std::map<std::string, std::string> metadata;  // "__metadata__"
  std::uint64_t data_offset = 0;                // file position of the data buffer, 8 + N
  std::uint64_t data_bytes = 0;                 // size of the data buffer
  // Index into `tensors` by name.
  std::unordered_map<std::string, std::size_t, NameHash> by_name;

  const TensorInfo* find(const std::string& name) const;  // nullptr if absent
};

// Rules that need only the length: kCorrupt if N is larger than the format or the file allows.
void check_header_length(std::uint64_t header_bytes, std::uint64_t file_bytes, const std::string& origin);

// Parses the N header bytes. `file_bytes` is the size of the whole file; `origin` names it in errors.
// Throws kCorrupt naming the file, the tensor and the rule that is broken.
// Allocates no more than a small multiple of the header's size.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> header_json, std::uint64_t file_bytes,
                                           const std::string& origin);

// Same, from the first bytes of an opened file; gives plain messages for a git-lfs pointer, an empty or a
// truncated file.
SafetensorsHeader read_safetensors_header(const File& file);

struct SafetensorsFile {
  File file;  // buffered unless opened otherwise
  SafetensorsHeader header;

  static SafetensorsFile open(const std::filesystem::path& path, Caching caching = Caching::kBuffered);
  // Absolute file position of a tensor's first byte.
  std::uint64_t position(const TensorInfo& tensor) const { return header.data_offset + tensor.begin; }
  // Reads a whole (small) tensor; kNotFound naming file and tensor if absent.
  std::vector<std::byte> read(const std::string& name) const;
};

// Gives each tensor its byte range, in the order of the vector, without gaps. Returns the total.
std::uint64_t assign_offsets(std::vector<TensorInfo>& tensors);

// The first 8 + N bytes of a file with these tensors: length, compact JSON in the vector's order, padded with
// spaces so that N is a multiple of 8. Offsets must have been assigned.
std::string serialize_safetensors_header(std::span<const TensorInfo> tensors,
                                         const std::map<std::string, std::string>& metadata);

}  // namespace perigee
