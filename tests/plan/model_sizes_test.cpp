// What a model is made of, against K3's known totals and against what `perigee pack` stores.
#include "plan/model_sizes.h"

#include <gtest/gtest.h>

#include "synth/synth.h"

namespace perigee {
namespace {

const TrunkPart& part(const ModelSizes& sizes, const std::string& name) {
  for (const TrunkPart& one : sizes.trunk) {
    if (one.name == name) return one;
  }
  throw std::runtime_error(name);
}

TEST(ModelSizes, OfTheReleaseAreItsOwn) {
  const ModelSizes sizes = sizes_from_config(synth_config(SynthPreset::kK3), 0, false);
  EXPECT_EQ(sizes.trunk_bytes(), 113'509'540'864U);
  EXPECT_EQ(sizes.expert_bytes, 17'547'264U);
  EXPECT_EQ(sizes.expert_count(), 82'432U);
  EXPECT_EQ(sizes.expert_weights, 3.0 * 3072 * 3584);
  EXPECT_EQ(part(sizes, "head").bytes, 163'840U * 7168 * 2);
  EXPECT_EQ(part(sizes, "embeddings").bytes, part(sizes, "head").bytes);
  EXPECT_EQ(part(sizes, "embeddings").weights, 0) << "a token reads one row";
  EXPECT_EQ(sizes.cache_bytes_a_token, 24U * (512 + 64) * 2);
}

TEST(ModelSizes, PlanesShrinkAsPackStoresThem) {
  const ModelSizes sizes = sizes_from_config(synth_config(SynthPreset::kK3), 0, false);
  const TrunkPart& head = part(sizes, "head");
  const std::uint64_t weights = 163'840ULL * 7168;
  EXPECT_EQ(head.bytes_as[static_cast<std::size_t>(PlaneFormat::kFp8)], weights + weights / (128 * 128) * 4);
  EXPECT_EQ(head.bytes_as[static_cast<std::size_t>(PlaneFormat::kNvfp4)], weights / 2 + weights / 16 + 4);
  EXPECT_EQ(head.four_bit_bytes_as[static_cast<std::size_t>(PlaneFormat::kNvfp4)], weights / 2);
  const ModelSizes smaller = with_planes(sizes, PlaneFormat::kFp8);
  EXPECT_EQ(part(smaller, "head").bytes, head.bytes_as[static_cast<std::size_t>(PlaneFormat::kFp8)]);
  EXPECT_EQ(part(smaller, "dense layers").bytes, part(sizes, "dense layers").bytes);
}

TEST(ModelSizes, AttentionThatIsSmallerAlreadyStaysAsItIs) {
  const ModelSizes sizes = sizes_from_config(synth_config(SynthPreset::kTiny), 0, true);
  const TrunkPart& attention = part(sizes, "attention");
  EXPECT_EQ(attention.bytes_as[0], attention.bytes);
  EXPECT_EQ(attention.bytes_as[static_cast<std::size_t>(PlaneFormat::kNvfp4)], attention.bytes);
  const ModelSizes plain = sizes_from_config(synth_config(SynthPreset::kTiny), 0, false);
  EXPECT_EQ(part(plain, "attention").bytes_as[static_cast<std::size_t>(PlaneFormat::kFp8)], attention.bytes);
  EXPECT_EQ(part(plain, "attention").weights, attention.weights);
}

}  // namespace
}  // namespace perigee
