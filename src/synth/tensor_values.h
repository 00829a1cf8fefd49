// The bytes of any tensor of a synthetic checkpoint, any range of it, from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/safetensors.h"
#include "synth/group_library.h"
#include "synth/synth.h"

namespace perigee::synth {

class TensorValues {
 public:
  TensorValues(const K3Config& config, const SynthOptions& options);

  // Bytes [begin, begin + out.size()) of the tensor.
  void fill(const TensorInfo& tensor, std::uint64_t begin, std::span<std::byte> out) const;

 private:
  void fill_expert(const TensorInfo& tensor, const TensorName& name, std::uint64_t begin,
                   std::span<std::byte> out) const;
  void fill_trunk(const TensorInfo& tensor, std::uint64_t begin, std::span<std::byte> out) const;
  void fill_a_log(std::uint64_t key, const TensorInfo& tensor, std::uint64_t begin,
                  std::span<std::byte> out) const;

  std::uint64_t heads_, seed_;
  ExpertStress stress_;
  bool nan_, a_log_tail_;
  GroupLibrary library_;
  std::vector<std::uint16_t> weights_;  // BF16, deviation 1/64, never 0
  std::vector<std::uint16_t> gains_;    // BF16, around 1
};

}  // namespace perigee::synth
