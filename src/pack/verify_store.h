// Proves a store from the bytes on disk: every record against its checksum, every trunk file against its own,
// and, if the checkpoint is at hand, every value against the checkpoint's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "pack/store_report.h"
#include "pack/workshop.h"

namespace perigee {

struct StoreFailure {
  std::string what;  // one sentence naming the file and place
};

struct StoreVerification {
  StoreReport report;
  std::uint64_t records = 0;   // read and hashed
  std::uint64_t parts = 0;     // trunk and head files, likewise
  std::uint64_t compared = 0;  // experts whose bytes are the source's
  std::uint64_t same = 0;      // trunk tensors whose bytes are the source's
  std::uint64_t rounded = 0;   // trunk tensors that are the source's in a smaller form
  std::uint64_t bytes_read = 0;
  std::uint64_t failures = 0;
  std::vector<StoreFailure> kept;  // the first twenty
  double seconds = 0;
};

// A fault in the bytes is a failure in the result; kNotFound, kCorrupt or kMismatch are thrown for a store
// that cannot be opened at all.
StoreVerification verify_store(const std::filesystem::path& store,
                               const std::optional<std::filesystem::path>& source,
                               const WorkOptions& options);

}  // namespace perigee
