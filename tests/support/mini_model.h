// A K3 small enough for the reference backend: random weights, K3's names and structure, made by `synth` in a
// moment. Its widths are chosen so that nothing divides evenly: a dot product has a second block and a tail,
// attention residuals have several blocks, A_log has padding. For tests only.
#pragma once

#include <filesystem>

#include "convert/convert.h"
#include "support/temp_dir.h"
#include "synth/synth.h"

namespace perigee::test {

inline SynthOptions mini_model_options() {
  SynthOptions options;
  options.preset = SynthPreset::kTiny;
  options.sizes.layers = 6;  // MLA at 3 and 5, blocks of two layers
  options.sizes.hidden = 288;
  options.sizes.dense_width = 96;
  options.sizes.moe_width = 32;
  options.sizes.latent = 64;
  options.sizes.heads = 3;
  options.sizes.vision_blocks = 1;
  options.jobs = 1;
  return options;
}

inline void make_mini_model(const std::filesystem::path& folder) {
  make_checkpoint(folder, mini_model_options());
}

// The lossless cast of a checkpoint's experts to NVFP4.
inline void make_nvfp4(const std::filesystem::path& source, const std::filesystem::path& output,
                       Layout layout) {
  ConvertOptions options;
  options.source = source;
  options.output = output;
  options.layout = layout;
  options.progress = ProgressStyle::kOff;
  options.jobs = 1;
  convert_checkpoint(options);
}

// Made once for the whole test program.
inline const std::filesystem::path& mini_model() {
  static const TempDir folder;
  static const std::filesystem::path model = [] {
    make_mini_model(folder / "mini");
    return folder / "mini";
  }();
  return model;
}

}  // namespace perigee::test
