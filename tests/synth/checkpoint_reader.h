// Reads synthetic checkpoints back for the tests of synth, one weight at a time. For tests only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/tensor_name.h"
#include "synth/synth.h"

namespace perigee::test {

// All tensors' bytes by name; for small checkpoints.
using TensorBytes = std::map<std::string, std::vector<std::uint8_t>>;
TensorBytes read_tensors(const std::filesystem::path& checkpoint);

// Makes a checkpoint in a temporary folder and reads it.
TensorBytes make_tensors(const SynthOptions& options);

// The whole folder: file name -> bytes.
std::map<std::string, std::string> read_files(const std::filesystem::path& folder);

// One expert projection, group by group.
struct Module {
  std::vector<std::uint8_t> packed, scales;

  std::size_t groups() const { return scales.size(); }
  // Sign and magnitude code, 0…15, of element 0…31 of a group.
  unsigned code(std::size_t group, std::size_t element) const;
  unsigned largest_magnitude_code(std::size_t group) const;
};
Module module_of(const TensorBytes& tensors, std::uint64_t layer, std::uint64_t expert,
                 Projection projection);
std::vector<Module> all_modules(const TensorBytes& tensors);

}  // namespace perigee::test
