// The one rule that says which tensors a source tensor becomes. Planning, converting and inspecting all ask
// here, so sizes, headers and bytes cannot disagree.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/tensor_name.h"
#include "convert/target_layout.h"

namespace perigee {

// From what, to what. Input scales of a source are kept (as value or reciprocal) when the target has them.
struct Conversion {
  ExpertFormat source = ExpertFormat::kMxfp4;
  bool source_has_input_scale = false;
  Layout layout = Layout::kModelOpt;
  Activations activations = Activations::kPlaceholder;
};

// How the bytes of an output tensor come about.
enum class Recipe {
  kCopy,           // the source tensor's bytes, whole or in slices
  kPackedNibbles,  // [out, in/2] of an expert module
  kBlockScales,    // E4M3 [out, in/16] (or E8M0 [out, in/32] for mxfp4) of an expert module
  kTensorScale,    // weight_scale_2 or weight_global_scale
  kInputScale,     // input_scale or input_global_scale
  kFp8Weight,      // F8_E4M3 [out, in] of an attention projection
  kFp8Scale,       // F32 [ceil(out/128), 1, ceil(in/128), 1]
};

struct OutputTensor {
  TensorInfo info;  // offsets not assigned
  Recipe recipe = Recipe::kCopy;
};

// Outputs of `source`, in file order; empty when the target has no use for it (an input scale without
// activations). kUnsupported naming the tensor when it cannot be converted (FP8 attention into another
// layout, odd widths).
std::vector<OutputTensor> output_tensors(const TensorInfo& source, const Conversion& conversion);

}  // namespace perigee
