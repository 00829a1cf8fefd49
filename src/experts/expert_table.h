// A compact table of all experts' places: K3 has 82,432 experts whose bytes are arranged alike, so what is
// where inside a run is kept once per arrangement, and an expert costs 24 bytes. Made from the headers of a
// checkpoint (checkpoint_experts.cpp) or read from a store's index (store_format.h).
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "experts/expert_files.h"

namespace perigee {

struct MatrixPlace {
  enum class Global : std::uint8_t { kNone, kMultiplies, kDivides };
  WeightFormat format = WeightFormat::kMxfp4;  // or kNvfp4
  Global global_use = Global::kNone;
  std::uint64_t rows = 0, columns = 0;
  std::uint64_t values = 0, scales = 0, global = 0;  // offsets from the run's first byte

  std::uint64_t values_bytes() const { return rows * columns / 2; }
  std::uint64_t scales_bytes() const { return rows * columns / (format == WeightFormat::kMxfp4 ? 32 : 16); }
  std::uint64_t global_bytes() const { return global_use == Global::kNone ? 0 : sizeof(float); }
  auto operator<=>(const MatrixPlace&) const = default;
};

struct RunLayout {
  std::uint64_t bytes = 0;
  std::array<MatrixPlace, 3> matrices;  // w1, w2, w3
  auto operator<=>(const RunLayout&) const = default;
};

// The matrices of a run in memory.
ExpertWeights view_run(const RunLayout& layout, const std::byte* run);

struct ExpertRecord {
  std::uint32_t file = 0;
  std::uint32_t layout = 0;
  std::uint64_t offset = 0;
  std::uint64_t checksum = 0;
};

struct ExpertTable {
  std::vector<RunLayout> layouts;
  std::vector<bool> has_experts;      // per layer of the model
  std::uint64_t experts = 0;          // of a layer
  std::vector<ExpertRecord> records;  // of the layers that have experts, in order; see first_records()
  bool has_checksums = false;

  // Number of records before this layer's; the layer's expert e is the e-th after them.
  std::vector<std::uint64_t> first_records() const;
};

// `files` has what ExpertRecord::file counts. kInternal if the table does not hold together.
std::unique_ptr<ExpertFiles> make_expert_files(ExpertTable table, std::vector<std::filesystem::path> files);

}  // namespace perigee
