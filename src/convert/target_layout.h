// What a conversion can write: how the routed experts are laid out, and whether activation scales go with
// them. Names only; which tensors a layout has is in output_tensors.h, what the JSON says is in metadata.h.
#pragma once

#include <string_view>

namespace perigee {

enum class Layout {
  kModelOpt,           // weight, weight_scale, weight_scale_2; quant_method "modelopt"
  kCompressedTensors,  // weight_packed, weight_scale, weight_global_scale; "nvfp4-pack-quantized"
  kNvidiaMixed,        // experts as kModelOpt, attention projections in FP8 128x128 blocks; "modelopt_mixed"
  kMxfp4,              // the released form: weight_packed, E8M0 weight_scale
};

// Per-tensor activation scales (input_scale, input_global_scale).
enum class Activations {
  kNone,         // none: weight-only, activations stay BF16
  kPlaceholder,  // the constant 1.0, for engines that need the tensor or quantise activations to FP4
};

// "modelopt", "compressed-tensors", "nvidia-mixed", "mxfp4"
const char* layout_name(Layout layout);
// kUsage naming the accepted words for anything else.
Layout parse_layout(std::string_view name);

// "none", "placeholder"
const char* activations_name(Activations activations);
Activations parse_activations(std::string_view name);

}  // namespace perigee
