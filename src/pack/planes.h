// The planes of a trunk: groups of matrices that `perigee pack` may store in a smaller form than the
// checkpoint has (docs/formats.md, "The store"). Says which tensor belongs to which plane and what it
// becomes; computes nothing. Experts are no plane: they are never rounded again.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "checkpoint/safetensors.h"
#include "checkpoint/tensor_name.h"

namespace perigee {

enum class Plane : std::uint8_t {
  kAttention,  // the projections of KDA and MLA
  kShared,     // shared experts
  kLatent,     // routed_expert_down_proj, routed_expert_up_proj
  kHead,       // lm_head
};
inline constexpr std::array<Plane, 4> kPlanes = {Plane::kAttention, Plane::kShared, Plane::kLatent,
                                                 Plane::kHead};
const char* plane_name(Plane plane);  // "attention", "shared", "latent", "head"

enum class PlaneFormat : std::uint8_t {
  kBf16,   // the tensors as the checkpoint has them
  kFp8,    // E4M3 by tiles of 128 x 128
  kNvfp4,  // ModelOpt's form
};
const char* plane_format_name(PlaneFormat format);  // "bf16", "fp8", "nvfp4"

using PlaneFormats = std::array<PlaneFormat, kPlanes.size()>;  // by Plane

// The plane of matrices of this class; kEmbedding is the head's, which the name tells from the embeddings.
std::optional<Plane> plane_of_class(TensorClass tensor_class);

// Nothing for a tensor that is in no plane: vectors, the router, embeddings, the dense layers, experts.
std::optional<Plane> plane_of(const TensorInfo& tensor);

// The form in which this tensor is stored when its plane is to have `wanted`: kBf16 also for a tensor that is
// in that form already, and for one whose rows are no whole blocks. kUnsupported naming the tensor if it is
// neither BF16 nor already in that form.
PlaneFormat format_for(const TensorInfo& tensor, PlaneFormat wanted);

// What a tensor becomes in this format: itself, or the weight and its scales. Offsets are not assigned.
std::vector<TensorInfo> stored_tensors(const TensorInfo& tensor, PlaneFormat format);

}  // namespace perigee
