#include "model/memory_needs.h"

#include <gtest/gtest.h>

#include "model/state.h"
#include "synth/synth.h"

namespace perigee {
namespace {

std::uint64_t bytes_of(const SequenceState& state, std::size_t positions) {
  std::uint64_t floats = 0;
  for (const auto& layer : state.layers) {
    if (const auto* kda = std::get_if<KdaState>(&layer)) {
      for (const Tensor* part : {&kda->conv_q, &kda->conv_k, &kda->conv_v, &kda->s})
        floats += part->values().size();
    } else {
      const auto& cache = std::get<MlaCache>(layer);
      floats += cache.view(positions).pieces.size() * kMlaPiece * cache.width();
    }
  }
  return floats * sizeof(float);
}

TEST(StateBytes, AreThoseOfARealState) {
  const K3Config config = synth_config(SynthPreset::kTiny);
  SequenceState state(config);
  EXPECT_EQ(state_bytes(config, 0), bytes_of(state, 0));
  for (auto& layer : state.layers) {
    if (auto* cache = std::get_if<MlaCache>(&layer)) cache->row(300);
  }
  EXPECT_EQ(state_bytes(config, 301), bytes_of(state, 301));
}

TEST(StateBytes, OfK3AreWhatItsShapesSay) {
  const K3Config config = synth_config(SynthPreset::kK3);
  // 69 layers of 96 heads of 128 x 128, and three convolutions' last three inputs.
  EXPECT_EQ(state_bytes(config, 0), 69u * 96 * 128 * (128 + 9) * 4);
  // 24 layers of 576 values a token.
  EXPECT_EQ(state_bytes(config, 256) - state_bytes(config, 0), 24u * 256 * 576 * 4);
}

}  // namespace
}  // namespace perigee
