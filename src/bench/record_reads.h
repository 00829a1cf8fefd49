// How fast a drive gives records of an expert's size at random places, past the page cache, with a given
// number of reads under way: what streaming can reach at best. Reads the same places for every depth in
// turn; a drive that is busy otherwise shows it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "base/async_io.h"
#include "base/cancel.h"
#include "base/file.h"

namespace perigee {

struct RecordPlace {
  std::uint32_t file = 0;    // index of the files
  std::uint64_t offset = 0;  // aligned
};

struct DepthRate {
  unsigned depth = 1;
  double bytes_per_second = 0;
  double cpu_seconds_per_gigabyte = 0;  // of this process
};

struct RecordReads {
  std::span<const File> files;
  std::span<const RecordPlace> places;  // in the order of reading; begins again at the end
  std::uint64_t record_bytes = 0;       // a multiple of kDirectAlignment
};

// For about `seconds`, at least one record. `first` is the place to begin with and is moved on. kIo naming
// the file that cannot be read.
DepthRate read_records(AsyncIo& io, const RecordReads& reads, unsigned depth, double seconds,
                       std::size_t& first);

// Whole records of these files, in a random order that is always the same.
std::vector<RecordPlace> shuffled_places(std::span<const File> files, std::uint64_t record_bytes);

struct DriveRates {
  std::filesystem::path file;  // what was read, the first of several
  bool made = false;           // for the measurement, and removed
  bool direct = false;         // past the page cache; otherwise the rates are too good to be true
  std::string io;              // "io_uring" or "threads"
  std::uint64_t record_bytes = 0;
  std::vector<DepthRate> depths;  // ascending
};

// Of the largest file in the folder, or of one that is made if none is large enough. About `seconds` in all.
// kNoSpace if neither is possible.
DriveRates measure_drive(const std::filesystem::path& folder, std::uint64_t record_bytes, double seconds,
                         const CancelToken& cancel);

}  // namespace perigee
