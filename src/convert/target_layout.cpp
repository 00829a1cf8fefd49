// The words of --layout and --activations.
#include "convert/target_layout.h"

#include "base/error.h"

namespace perigee {

const char* layout_name(Layout layout) {
  switch (layout) {
    case Layout::kModelOpt:
      return "modelopt";
    case Layout::kCompressedTensors:
      return "compressed-tensors";
    case Layout::kNvidiaMixed:
      return "nvidia-mixed";
    case Layout::kMxfp4:
      return "mxfp4";
  }
  fail(ErrorCode::kInternal, "layout {} has no name", static_cast<int>(layout));
}

Layout parse_layout(std::string_view name) {
  for (const Layout layout :
       {Layout::kModelOpt, Layout::kCompressedTensors, Layout::kNvidiaMixed, Layout::kMxfp4}) {
    if (name == layout_name(layout)) return layout;
  }
  fail(ErrorCode::kUsage,
       "\"{}\" is not a layout; choose modelopt, compressed-tensors, nvidia-mixed or mxfp4", name);
}

const char* activations_name(Activations activations) {
  switch (activations) {
    case Activations::kNone:
      return "none";
    case Activations::kPlaceholder:
      return "placeholder";
  }
  fail(ErrorCode::kInternal, "activations {} has no name", static_cast<int>(activations));
}

Activations parse_activations(std::string_view name) {
  for (const Activations activations : {Activations::kNone, Activations::kPlaceholder}) {
    if (name == activations_name(activations)) return activations;
  }
  fail(ErrorCode::kUsage, "\"{}\" is not a kind of activation scales; choose none or placeholder", name);
}

}  // namespace perigee
