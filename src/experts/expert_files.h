// Where the bytes of every routed expert lie: one run of bytes in one file, and what is where inside the run.
// Three kinds of folder have that form: the released checkpoint and its conversions, whose six to nine
// tensors of an expert stand side by side (an unaligned run), and a store of `perigee pack`
// (docs/formats.md), whose records are aligned and carry a checksum. Deliberately reads no expert: that is
// the business of whoever has memory for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "experts/expert_source.h"

namespace perigee {

struct ExpertPlace {
  std::uint32_t file = 0;                 // index into ExpertFiles::files()
  std::uint64_t offset = 0;               // of the run's first byte
  std::uint64_t bytes = 0;                // of the run
  std::optional<std::uint64_t> checksum;  // XXH3-64 of the run, if the folder has one
};

class ExpertFiles {
 public:
  virtual ~ExpertFiles() = default;

  virtual const std::vector<std::filesystem::path>& files() const = 0;
  virtual std::uint64_t layers() const = 0;   // of the model; those without experts have no places
  virtual std::uint64_t experts() const = 0;  // of a layer
  virtual bool has_experts(std::uint64_t layer) const = 0;
  virtual ExpertPlace place(std::uint64_t layer, std::uint64_t expert) const = 0;
  virtual std::uint64_t largest_run() const = 0;  // bytes

  // The expert in `run`, the bytes of its place in memory, which the result views. No value is changed.
  virtual ExpertWeights weights(std::uint64_t layer, std::uint64_t expert, const std::byte* run) const = 0;
};

// From the shards of a checkpoint folder. kNotFound, kUnsupported or kCorrupt naming the tensor that is
// missing, has another shape than config.json asks for, or stands apart from its expert's others by more than
// the run would bear.
std::unique_ptr<ExpertFiles> open_checkpoint_experts(const std::filesystem::path& checkpoint);

// From a folder that `perigee pack` made.
std::unique_ptr<ExpertFiles> open_store_experts(const std::filesystem::path& store);

// Whether the folder is a store rather than a checkpoint.
bool is_store(const std::filesystem::path& folder);

}  // namespace perigee
