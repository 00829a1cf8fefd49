// What a model is made of, as far as memory and time go: the parts of the trunk, one expert, what a sequence
// needs. From config.json alone, or from the headers of a store. Reads no weight.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/safetensors.h"
#include "pack/planes.h"

namespace perigee {

struct TrunkPart {
  std::string name;            // a plane's, or "embeddings", "dense layers", "others"
  std::optional<Plane> plane;  // of those that `perigee pack` may make smaller
  std::uint64_t bytes = 0;
  std::uint64_t four_bit_bytes = 0;                  // of them
  std::array<std::uint64_t, 3> bytes_as{};           // by PlaneFormat; the same three times if it is no plane
  std::array<std::uint64_t, 3> four_bit_bytes_as{};  // of them
  double weights = 0;                                // that every token is multiplied with
};

struct ModelSizes {
  std::vector<TrunkPart> trunk;
  std::uint64_t moe_layers = 0, experts = 0, top_k = 0;  // experts and choices of a layer
  std::uint64_t expert_bytes = 0, slot_bytes = 0;        // of one, on the drive and in memory
  double expert_weights = 0;                             // of one
  std::uint64_t state_bytes = 0;                         // of a sequence, whatever its length
  std::uint64_t cache_bytes_a_token = 0;                 // of MLA's latent cache, in bf16
  double attention_macs_a_position = 0;  // of a token, for each position that it looks back at
  std::uint64_t activations_a_token = 0;

  std::uint64_t trunk_bytes() const;
  std::uint64_t expert_count() const { return moe_layers * experts; }
};

// The trunk without vision is made of these tensors; others among them are left out.
ModelSizes sizes_of(const K3Config& config, std::span<const TensorInfo> tensors, std::uint64_t expert_bytes);

// Of the released form, with experts of this size (0: MXFP4) and maybe attention in FP8.
ModelSizes sizes_from_config(const K3Config& config, std::uint64_t expert_bytes, bool fp8_attention);

// Of a folder that `perigee pack` made.
ModelSizes sizes_of_store(const std::filesystem::path& store);

// The same model after `perigee pack` with these formats. Parts that are smaller already stay as they are.
ModelSizes with_planes(ModelSizes sizes, PlaneFormat format);

}  // namespace perigee
