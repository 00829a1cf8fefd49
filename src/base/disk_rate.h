// Free space and speed of the disk behind a folder, for estimates before long work. A second of writing and
// reading is an estimate: it sees neither a drive's full cache nor other users of the disk.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/cancel.h"

namespace perigee {

// The folder itself or, while it does not exist, the nearest one above it that does.
std::filesystem::path existing_folder(const std::filesystem::path& folder);

// Bytes an ordinary user may still write there.
std::uint64_t free_bytes(const std::filesystem::path& folder);

struct DiskRate {
  double write_bytes_per_second = 0;
  double read_bytes_per_second = 0;
  bool direct = false;  // past the page cache; otherwise reads are too fast to be true
};

// Writes a temporary file for about `seconds`, reads it back, and removes it, whatever happens. kNoSpace if
// less than a gigabyte would stay free.
DiskRate measure_disk(const std::filesystem::path& folder, double seconds, const CancelToken& cancel);

}  // namespace perigee
