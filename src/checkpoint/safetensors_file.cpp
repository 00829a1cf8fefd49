// Opening safetensors files and reading small tensors. Bulk data is read elsewhere, with asynchronous I/O.
#include <array>

#include "base/error.h"
#include "checkpoint/json_text.h"
#include "checkpoint/safetensors.h"

namespace perigee {
namespace {

// What git leaves in place of a large file when git-lfs did not run.
constexpr std::string_view kLfsPointer = "version https://git-lfs";

void refuse_lfs_pointer(const File& file, std::uint64_t file_bytes) {
  std::array<char, kLfsPointer.size()> start{};
  if (file_bytes < start.size()) return;
  file.read_exact(std::as_writable_bytes(std::span(start)), 0);
  if (std::string_view(start.data(), start.size()) == kLfsPointer) {
    fail(ErrorCode::kCorrupt,
         "{} is a git-lfs pointer, not the file itself; fetch it with \"git lfs pull\" or download it again",
         file.path().string());
  }
}

std::uint64_t read_header_length(const File& file, std::uint64_t file_bytes) {
  if (file_bytes == 0) fail(ErrorCode::kCorrupt, "{} is empty; download it again", file.path().string());
  if (file_bytes < 8) {
    fail(ErrorCode::kCorrupt, "{} has only {} bytes, too few for a safetensors file", file.path().string(),
         file_bytes);
  }
  refuse_lfs_pointer(file, file_bytes);
  std::array<unsigned char, 8> bytes{};
  file.read_exact(std::as_writable_bytes(std::span(bytes)), 0);
  std::uint64_t length = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) length = length << 8 | bytes[i];
  return length;
}

}  // namespace

SafetensorsHeader read_safetensors_header(const File& file) {
  const std::uint64_t file_bytes = file.size();
  const std::uint64_t length = read_header_length(file, file_bytes);
  const std::string origin = file.path().string();
  check_header_length(length, file_bytes, origin);
  std::vector<std::byte> json(length);
  file.read_exact(json, 8);
  return parse_safetensors_header(json, file_bytes, origin);
}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path, Caching caching) {
  // A header has no alignment, so it is always read through the page cache.
  SafetensorsHeader header = read_safetensors_header(File::open_read(path));
  return {File::open_read(path, caching), std::move(header)};
}

std::vector<std::byte> SafetensorsFile::read(const std::string& name) const {
  const TensorInfo* tensor = header.find(name);
  if (tensor == nullptr)
    fail(ErrorCode::kNotFound, "{} has no tensor {}", file.path().string(), quoted_name(name));
  std::vector<std::byte> bytes(tensor->bytes());
  if (file.is_direct()) {
    File::open_read(file.path()).read_exact(bytes, position(*tensor));
  } else {
    file.read_exact(bytes, position(*tensor));
  }
  return bytes;
}

}  // namespace perigee
