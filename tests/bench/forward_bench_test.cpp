// What the measurements of the forward pass promise besides rates: valid weights from all of the memory, all
// of a model's parts counted as often as it has them, costs by arithmetic. No time is judged here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/error.h"
#include "bench/decode_bench.h"
#include "bench/layer_costs.h"
#include "bench/machine_limits.h"
#include "bench/matrix_bench.h"
#include "bench/prefill_bench.h"
#include "bench/random_model.h"
#include "bench/statistics.h"
#include "bench/weight_ring.h"
#include "synth/synth.h"

namespace perigee {
namespace {

constexpr std::uint64_t kMemory = 4'000'000;

TEST(Statistics, MedianIsTheMiddleValue) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({9, 1, 5}), 5);
  EXPECT_EQ(median({4, 1, 3, 2}), 3);
}

TEST(WeightRing, HoldsFiniteWeightsOfModestSize) {
  for (const WeightFormat format : {WeightFormat::kBf16, WeightFormat::kMxfp4, WeightFormat::kNvfp4}) {
    WeightRing ring(format, 100'000);
    const Matrix matrix = ring.take(32, 64);
    float largest = 0;
    std::set<float> different;
    for (std::size_t row = 0; row < matrix.rows; ++row) {
      for (std::size_t column = 0; column < matrix.columns; ++column) {
        const float weight =
            matrix_element(matrix, row, column) * matrix_scale(matrix, row, column) * matrix.global_scale;
        ASSERT_TRUE(std::isfinite(weight)) << weight_format_name(format);
        largest = std::max(largest, std::fabs(weight));
        different.insert(weight);
      }
    }
    EXPECT_GT(largest, 0x1p-12f) << weight_format_name(format);
    EXPECT_LT(largest, 0x1p-4f) << weight_format_name(format);
    EXPECT_GT(different.size(), 40U) << weight_format_name(format);
  }
}

TEST(WeightRing, GivesMatricesSideBySideAndBeginsAgain) {
  WeightRing ring(WeightFormat::kMxfp4, 10 * (64 * 64 / 2 + 64 * 64 / 32));
  const std::vector<Matrix> matrices = ring.take_all(64, 64);
  ASSERT_EQ(matrices.size(), 10U);
  for (std::size_t i = 1; i < matrices.size(); ++i) {
    EXPECT_EQ(matrices[i].values - matrices[i - 1].values, 64 * 64 / 2);
    EXPECT_EQ(matrices[i].scales - matrices[i - 1].scales, 64 * 64 / 32);
  }
  EXPECT_EQ(ring.take(64, 64).values, matrices.front().values);
}

TEST(WeightRing, RefusesAMatrixLargerThanItself) {
  WeightRing ring(WeightFormat::kBf16, 10'000);
  EXPECT_THROW(
      {
        try {
          (void)ring.take(1000, 1024);
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::kUsage);
          EXPECT_THAT(error.what(), testing::HasSubstr("2048000 bytes"));
          throw;
        }
      },
      Error);
}

TEST(MachineLimits, PeaksAreNamedAfterBackends) {
  ThreadPool pool(1);
  for (const ComputePeak& peak : measure_compute_peaks(pool, 1)) {
    EXPECT_GT(peak.macs_per_second, 0) << peak.name;
    EXPECT_THAT(peak.backend, testing::StartsWith("avx"));
  }
  EXPECT_EQ(measure_peak("reference", pool), 0);
}

// K3's own numbers (docs/model.md): 17,547,264 bytes an expert, 25.8 GB of experts a token, and what the
// names of its tensors weigh.
TEST(LayerCosts, OfK3AreThoseOfItsTensors) {
  const K3Config config = synth_config(SynthPreset::kK3);
  LayerWeights kda;
  const auto bf16 = [](std::size_t rows, std::size_t columns) {
    Matrix matrix;
    matrix.format = WeightFormat::kBf16;
    matrix.rows = rows;
    matrix.columns = columns;
    return matrix;
  };
  KdaWeights w;
  w.q_proj = w.k_proj = w.v_proj = w.g_proj = bf16(12288, 7168);
  w.o_proj = bf16(7168, 12288);
  w.f_a_proj = bf16(128, 7168);
  w.f_b_proj = bf16(12288, 128);
  w.b_proj = bf16(96, 7168);
  kda.attention = w;
  const double macs = 5.0 * 12288 * 7168 + 128.0 * 7168 + 12288.0 * 128 + 96.0 * 7168;
  const std::uint64_t state = std::uint64_t{96} * 128 * 128 * sizeof(float);
  EXPECT_EQ(attention_bytes(config, kda, 5), static_cast<std::uint64_t>(2 * macs) + 2 * state);
  EXPECT_EQ(attention_macs(config, kda, 1000, 3), 3 * (macs + 4.0 * 96 * 128 * 128));
  EXPECT_EQ(routed_macs(config), 16 * 33'030'144.0);
}

DecodeBenchOptions tiny_decode() {
  DecodeBenchOptions options;
  options.whole = synth_config(SynthPreset::kTiny);
  options.measured = options.whole;
  options.memory_bytes = kMemory;
  options.context = 300;
  options.threads = 1;
  options.rounds = 2;
  return options;
}

TEST(DecodeBench, CountsEveryPartAsOftenAsTheModelHasIt) {
  DecodeBenchOptions options = tiny_decode();
  options.whole = synth_config(SynthPreset::kK3);
  const DecodeBenchResult result = bench_decode(options);
  const auto count = [&](const std::string& name) {
    for (const DecodePart& part : result.parts) {
      if (part.name == name) return std::pair(part.count, part.measured);
    }
    return std::pair<std::size_t, std::size_t>(999, 999);
  };
  EXPECT_EQ(count("KDA attention"), std::pair(std::size_t{69}, std::size_t{3}));
  EXPECT_EQ(count("MLA attention"), std::pair(std::size_t{24}, std::size_t{1}));
  EXPECT_EQ(count("dense FFN"), std::pair(std::size_t{1}, std::size_t{1}));
  EXPECT_EQ(count("latent MoE"), std::pair(std::size_t{92}, std::size_t{3}));
  EXPECT_EQ(count("output head"), std::pair(std::size_t{1}, std::size_t{1}));
}

TEST(DecodeBench, ATokenIsTheSumOfItsParts) {
  const DecodeBenchResult result = bench_decode(tiny_decode());
  double seconds = 0;
  std::uint64_t bytes = 0;
  for (const DecodePart& part : result.parts) {
    EXPECT_GT(part.seconds, 0) << part.name;
    seconds += static_cast<double>(part.count) * part.seconds;
    bytes += part.count * part.bytes;
  }
  EXPECT_DOUBLE_EQ(result.token_seconds(), seconds);
  EXPECT_EQ(result.token_bytes(), bytes);
  EXPECT_GT(result.bytes_per_second, 0);
}

TEST(DecodeBench, TakesExpertsOfEitherFormat) {
  DecodeBenchOptions options = tiny_decode();
  const DecodeBenchResult mxfp4 = bench_decode(options);
  options.experts = WeightFormat::kNvfp4;
  const DecodeBenchResult nvfp4 = bench_decode(options);
  // 2 experts of 3 layers; a scale byte for 16 elements instead of 32.
  EXPECT_EQ(nvfp4.token_bytes() - mxfp4.token_bytes(), std::uint64_t{3} * 2 * 3 * 96 * 64 / 32);
}

TEST(PrefillBench, MeasuresEveryPartOfEveryPrompt) {
  PrefillBenchOptions options;
  options.sizes = synth_config(SynthPreset::kTiny);
  options.memory_bytes = kMemory;
  options.tokens = {3, 40};
  options.threads = 1;
  options.rounds = 1;
  const PrefillBenchResult result = bench_prefill(options);
  ASSERT_EQ(result.parts.size(), 12U);
  for (std::size_t i = 0; i < result.parts.size(); ++i) {
    EXPECT_EQ(result.parts[i].tokens, i < 6 ? 3U : 40U);
    EXPECT_GT(result.parts[i].seconds, 0) << result.parts[i].name;
    EXPECT_GT(result.parts[i].macs, 0) << result.parts[i].name;
  }
  EXPECT_EQ(result.parts[0].macs, 3.0 * 2 * 3 * 96 * 64);     // 2 experts of 3 matrices
  EXPECT_EQ(result.parts[1].macs, 3.0 * 3 * (2 * 96) * 160);  // 2 shared ones, as one
  ASSERT_EQ(result.products.size(), 6U);
  EXPECT_EQ(result.products[3].tokens, 10U);  // 40 tokens, 2 of 8 experts each
}

TEST(PrefillBench, CountsTheTokensBefore) {
  PrefillBenchOptions options;
  options.sizes = synth_config(SynthPreset::kTiny);
  options.memory_bytes = kMemory;
  options.tokens = {5};
  options.threads = 1;
  options.rounds = 1;
  const PrefillBenchResult first = bench_prefill(options);
  options.context = 300;
  const PrefillBenchResult later = bench_prefill(options);
  const K3Config& config = options.sizes;
  const auto each =
      static_cast<double>(config.num_attention_heads * (2 * config.kv_lora_rank + config.qk_rope_head_dim));
  ASSERT_EQ(later.parts[4].name, "MLA attention");
  EXPECT_EQ(later.parts[4].macs - first.parts[4].macs, 5 * 300 * each);
  EXPECT_EQ(later.parts[3].macs, first.parts[3].macs);  // KDA
}

TEST(MatrixBench, MeasuresEveryCombination) {
  MatrixBenchOptions options;
  options.cases = {{"a", WeightFormat::kMxfp4, 64, 96}, {"b", WeightFormat::kBf16, 32, 64}};
  options.backends = {"reference"};
  options.threads = {1, 2};
  options.batches = {1, 3};
  options.memory_bytes = 20'000;
  options.rounds = 1;
  const MatrixBenchResult result = bench_matrices(options);
  ASSERT_EQ(result.rates.size(), 8U);
  for (const MatrixRate& rate : result.rates) {
    EXPECT_GT(rate.bytes_per_second, 0);
    EXPECT_TRUE(rate.bound_by_memory);  // the reference has no instructions of its own
  }
  EXPECT_EQ(result.rates[0].matrix, 0U);
  EXPECT_EQ(result.rates[7].matrix, 1U);
  EXPECT_EQ(result.rates[7].threads, 2U);
  EXPECT_EQ(result.rates[7].batch, 3U);
}

}  // namespace
}  // namespace perigee
