// store.json: what a store was made from and how, with the checksums of the files that the experts' index
// does not cover. For people, for `verify` and for `unpack`; nothing needs it to run a model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "pack/trunk_writer.h"

namespace perigee {

inline constexpr const char* kStoreReportName = "store.json";

struct StoreReport {
  struct Shard {  // of the source
    std::string name;
    std::uint64_t bytes = 0;
    std::string trunk;  // the file with its other tensors; empty if it has none
  };
  struct Part {  // a trunk or head file
    std::string path;
    std::uint64_t bytes = 0;
    std::uint64_t xxh3 = 0;
  };

  std::string fingerprint;  // of everything that decides the store's bytes
  std::string source_name;
  std::string expert_format;  // "mxfp4" or "nvfp4"
  bool linked = false;
  std::uint64_t experts = 0;  // records
  std::uint64_t expert_bytes = 0;
  std::uint64_t largest_record = 0;
  PlaneTable planes;
  std::vector<Shard> shards;
  std::vector<Part> parts;

  bool is_lossless() const;  // no plane was rounded
};

std::string store_report_to_json(const StoreReport& report);

// kNotFound or kCorrupt naming the file. Paths in it are plain relative ones.
StoreReport load_store_report(const std::filesystem::path& store);

}  // namespace perigee
