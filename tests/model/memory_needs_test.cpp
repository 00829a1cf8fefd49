#include "model/memory_needs.h"

#include <gtest/gtest.h>

#include "model/state.h"
#include "support/expect_error.h"
#include "synth/synth.h"

namespace perigee {
namespace {

std::uint64_t bytes_of(const SequenceState& state, std::size_t positions) {
  std::uint64_t bytes = 0;
  for (const auto& layer : state.layers) {
    if (const auto* kda = std::get_if<KdaState>(&layer)) {
      for (const Tensor* part : {&kda->conv_q, &kda->conv_k, &kda->conv_v, &kda->s})
        bytes += part->values().size_bytes();
    } else {
      const auto& cache = std::get<MlaCache>(layer);
      bytes += cache.view(positions).pieces.size() * kMlaPiece * cache.row_bytes();
    }
  }
  return bytes;
}

TEST(StateBytes, AreThoseOfARealState) {
  const K3Config config = synth_config(SynthPreset::kTiny);
  for (const Precision precision : {Precision::kBf16, Precision::kF32}) {
    SequenceState state(config);
    EXPECT_EQ(state_bytes(config, 0, precision), bytes_of(state, 0));
    for (auto& layer : state.layers) {
      if (auto* cache = std::get_if<MlaCache>(&layer)) cache->rows(300, 1, precision);
    }
    EXPECT_EQ(state_bytes(config, 301, precision), bytes_of(state, 301));
  }
}

TEST(StateBytes, OfK3AreWhatItsShapesSay) {
  const K3Config config = synth_config(SynthPreset::kK3);
  // 69 layers of 96 heads of 128 x 128, and three convolutions' last three inputs.
  EXPECT_EQ(state_bytes(config, 0, Precision::kBf16), 69u * 96 * 128 * (128 + 9) * 4);
  EXPECT_EQ(state_bytes(config, 0, Precision::kF32), 69u * 96 * 128 * (128 + 9) * 4);
  // 24 layers of 576 values a token: 27.6 kB in bf16.
  EXPECT_EQ(cache_bytes_a_token(config, Precision::kBf16), 24u * 576 * 2);
  EXPECT_EQ(cache_bytes_a_token(config, Precision::kF32), 24u * 576 * 4);
  EXPECT_EQ(state_bytes(config, 256, Precision::kBf16) - state_bytes(config, 0, Precision::kBf16),
            24u * 256 * 576 * 2);
}

std::vector<float> read_row(const MlaCache& cache, std::size_t position) {
  const MlaCacheView view = cache.view(position + 1);
  const Matrix piece{.format = view.format,
                     .rows = kMlaPiece,
                     .columns = cache.width(),
                     .values = view.pieces[position / kMlaPiece]};
  std::vector<float> row(cache.width());
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = matrix_element(piece, position % kMlaPiece, i);
  return row;
}

TEST(LatentCache, KeepsBf16NumbersInTwoBytesAndAnyFloatInFour) {
  const std::vector<float> bf16 = {1.0F, -0.0078125F, 3.140625F, 0x1p-133F, -3.3895314e38F};
  const std::vector<float> any = {0.1F, -1e-30F, 3.14159F, 0x1p-149F, 1e38F};
  MlaCache narrow(5), wide(5);
  for (const std::size_t position : {std::size_t{0}, kMlaPiece - 1, kMlaPiece, 3 * kMlaPiece + 7}) {
    narrow.write(position, bf16, Precision::kBf16);
    wide.write(position, any, Precision::kF32);
    EXPECT_EQ(read_row(narrow, position), bf16);
    EXPECT_EQ(read_row(wide, position), any);
  }
  EXPECT_EQ(narrow.row_bytes(), 10u);
  EXPECT_EQ(wide.row_bytes(), 20u);
}

TEST(LatentCache, RefusesRowsOfAnotherPrecision) {
  const std::vector<float> row(4, 1.0F);
  MlaCache cache(4);
  cache.write(0, row, Precision::kBf16);
  EXPECT_ERROR(cache.write(1, row, Precision::kF32), ErrorCode::kInternal, "kept in bf16");
}

}  // namespace
}  // namespace perigee
