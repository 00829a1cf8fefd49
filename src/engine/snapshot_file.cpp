// Snapshots as files: a fixed header, then fingerprint, ids and state. Little-endian, as every machine that
// this program runs on.
#include <array>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "engine/snapshot.h"

namespace perigee {
namespace {

constexpr std::array<char, 8> kMagic = {'P', 'E', 'R', 'I', 'S', 'N', 'A', 'P'};
constexpr std::uint32_t kVersion = 2;  // 1 kept latents in float32 whatever the precision

struct FileHeader {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t precision = 0;  // of latents: 0 bf16, 1 float32
  std::uint64_t id_count = 0;
  std::uint64_t fingerprint_bytes = 0;
  std::uint64_t state_bytes = 0;
  std::uint64_t checksum = 0;
};
static_assert(sizeof(FileHeader) == 48);

std::span<std::byte> bytes_of(auto& values) {
  return std::as_writable_bytes(std::span(values));
}

// Every length is checked against what is left of the file before anything is allocated.
void check_lengths(const FileHeader& header, std::uint64_t file_bytes, const std::filesystem::path& path) {
  std::uint64_t left = file_bytes - sizeof(FileHeader);
  const auto take = [&](std::uint64_t count, std::uint64_t size) {
    if (count > left / size) fail(ErrorCode::kCorrupt, "{} is shorter than its header says", path.string());
    left -= count * size;
  };
  take(header.fingerprint_bytes, 1);
  take(header.id_count, sizeof(std::uint32_t));
  take(header.state_bytes, 1);
  if (left != 0) fail(ErrorCode::kCorrupt, "{} has {} bytes too many", path.string(), left);
}

FileHeader read_header(const File& file) {
  FileHeader header;
  if (file.size() < sizeof(header))
    fail(ErrorCode::kCorrupt, "{} is too short to be a snapshot", file.path().string());
  file.read_exact(std::as_writable_bytes(std::span(&header, 1)), 0);
  if (header.magic != kMagic) fail(ErrorCode::kCorrupt, "{} is not a snapshot", file.path().string());
  if (header.version != kVersion) {
    fail(ErrorCode::kUnsupported,
         "{} is a snapshot of version {}, but this program reads version {}; delete it, its prompt will be "
         "computed again",
         file.path().string(), header.version, kVersion);
  }
  if (header.precision > 1)
    fail(ErrorCode::kCorrupt, "{} names a precision that there is not: {}", file.path().string(),
         header.precision);
  check_lengths(header, file.size(), file.path());
  return header;
}

}  // namespace

void save_snapshot(const Snapshot& snapshot, const std::filesystem::path& path) {
  const FileHeader header{.precision = snapshot.precision == Precision::kF32 ? 1U : 0U,
                          .id_count = snapshot.ids.size(),
                          .fingerprint_bytes = snapshot.model_fingerprint.size(),
                          .state_bytes = snapshot.bytes.size(),
                          .checksum = snapshot.checksum};
  const std::array<std::span<const std::byte>, 4> pieces = {
      std::as_bytes(std::span(&header, 1)), std::as_bytes(std::span(snapshot.model_fingerprint)),
      std::as_bytes(std::span(snapshot.ids)), std::span<const std::byte>(snapshot.bytes)};
  write_file_atomically(path, pieces);
}

Snapshot load_snapshot(const std::filesystem::path& path) {
  const File file = File::open_read(path);
  const FileHeader header = read_header(file);
  Snapshot snapshot;
  snapshot.checksum = header.checksum;
  snapshot.precision = header.precision == 1 ? Precision::kF32 : Precision::kBf16;
  snapshot.model_fingerprint.resize(header.fingerprint_bytes);
  snapshot.ids.resize(header.id_count);
  snapshot.bytes.resize(header.state_bytes);
  std::uint64_t offset = sizeof(header);
  for (const std::span<std::byte> part :
       {bytes_of(snapshot.model_fingerprint), bytes_of(snapshot.ids), bytes_of(snapshot.bytes)}) {
    file.read_exact(part, offset);
    offset += part.size();
  }
  if (snapshot_checksum(snapshot) != snapshot.checksum)
    fail(ErrorCode::kCorrupt, "{} is damaged: its checksum does not fit; delete it", path.string());
  return snapshot;
}

}  // namespace perigee
