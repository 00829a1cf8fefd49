#include "pack/shard_head.h"

#include <cstring>

#include "base/error.h"

namespace perigee {

std::filesystem::path head_path(const std::filesystem::path& store, const std::string& shard) {
  return store / kSourceFolder / (shard + ".head");
}

std::string read_head(const File& shard, const SafetensorsHeader& header,
                      const std::vector<TensorInfo>& leftovers) {
  std::string head(header.data_offset, '\0');
  shard.read_exact(std::as_writable_bytes(std::span(head)), 0);
  for (const TensorInfo& tensor : leftovers) {
    const std::size_t at = head.size();
    head.resize(at + tensor.bytes());
    shard.read_exact(std::as_writable_bytes(std::span(head)).subspan(at), header.data_offset + tensor.begin);
  }
  return head;
}

SafetensorsHeader parse_head(const std::filesystem::path& head, std::uint64_t shard_bytes) {
  const File file = File::open_read(head);
  std::uint64_t length = 0;
  file.read_exact(std::as_writable_bytes(std::span(&length, 1)), 0);
  check_header_length(length, shard_bytes, head.string());
  if (length > file.size() - sizeof(length)) {
    fail(ErrorCode::kCorrupt, "{} is shorter than the header that it begins with; restore it", head.string());
  }
  std::vector<std::byte> text(length);
  file.read_exact(text, sizeof(length));
  return parse_safetensors_header(text, shard_bytes, head.string());
}

}  // namespace perigee
