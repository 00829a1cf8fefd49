// The index of a small store, for the tests of its format and for the seeds of its fuzz target. For tests
// only.
#pragma once

#include "experts/store_format.h"

namespace perigee::test {

// The matrices of an expert, nowhere yet.
inline RunLayout expert_matrices(WeightFormat format, std::uint64_t width, std::uint64_t latent) {
  const auto global =
      format == WeightFormat::kNvfp4 ? MatrixPlace::Global::kMultiplies : MatrixPlace::Global::kNone;
  RunLayout layout;
  for (std::size_t i = 0; i < 3; ++i) {
    MatrixPlace& matrix = layout.matrices[i];
    matrix.format = format;
    matrix.global_use = global;
    matrix.rows = i == 1 ? latent : width;
    matrix.columns = i == 1 ? width : latent;
  }
  return layout;
}

// Three layers, the first without experts, two experts each, in two files.
inline StoreIndex small_index() {
  StoreIndex index;
  index.config_checksum = 0x1122334455667788;
  index.files = {{"experts-a.bin", "/packed/experts-a.bin", 16384}, {"../b/experts-b.bin", "", 16384}};
  index.table.layouts = {record_layout(expert_matrices(WeightFormat::kMxfp4, 32, 96))};
  index.table.has_experts = {false, true, true};
  index.table.experts = 2;
  index.table.records = {{0, 0, 0, 11}, {1, 0, 8192, 22}, {0, 0, 8192, 33}, {1, 0, 0, 44}};
  index.table.has_checksums = true;
  return index;
}

}  // namespace perigee::test
