// Rates of the numerics kernels beside this machine's memcpy of the same size, measured in the same run.
// Sizes: one that stays in the second-level cache and one far beyond the last. Deliberately no I/O.
#include <benchmark/benchmark.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "numerics/bf16.h"
#include "numerics/expert_scan.h"
#include "numerics/fp8_block.h"
#include "numerics/kernels.h"
#include "numerics/lossless_cast.h"
#include "numerics/requantise.h"

namespace perigee {
namespace {

constexpr std::size_t kInCache = std::size_t{256} << 10;  // bytes of nibbles
constexpr std::size_t kInMemory = std::size_t{256} << 20;

// Values as in the released experts: a handful of scale bytes, every group's largest code 6 or 7.
struct Module {
  std::vector<std::byte> packed;
  std::vector<std::byte> scales;
  std::vector<std::byte> packed_out;
  std::vector<std::byte> blocks_out;

  explicit Module(std::size_t bytes)
      : packed(bytes), scales(bytes / 16), packed_out(bytes), blocks_out(bytes / 8) {
    std::mt19937 random(1);
    for (auto& pair : packed) pair = static_cast<std::byte>(random() & 0xDD);
    for (std::size_t group = 0; group < scales.size(); ++group) {
      scales[group] = static_cast<std::byte>(117 + random() % 5);
      packed[16 * group + random() % 16] = static_cast<std::byte>(0x60 + random() % 8);
    }
  }
  std::size_t output_bytes() const { return packed_out.size() + blocks_out.size(); }
};

void report(benchmark::State& state, std::size_t bytes) {
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * static_cast<std::int64_t>(state.iterations()));
}

void copy_memory(benchmark::State& state, std::size_t bytes) {
  std::vector<std::byte> from(bytes, std::byte{1});
  std::vector<std::byte> to(bytes);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
  report(state, bytes);
}

void cast_experts(benchmark::State& state, std::size_t bytes, const Kernels* kernels) {
  Module module(bytes);
  const CastTable table = make_cast_table(-6);
  for (auto _ : state) {
    Mxfp4Scan scan;
    copy_and_scan_mxfp4(module.packed, module.scales, module.packed_out, scan, *kernels);
    expand_scales(module.scales, table, module.blocks_out, *kernels);
    benchmark::DoNotOptimize(scan);
    benchmark::ClobberMemory();
  }
  report(state, module.output_bytes());
}

void requantise(benchmark::State& state, std::size_t bytes, const Kernels* kernels, RequantMethod method) {
  Module module(bytes);
  Mxfp4Scan scan;
  scan_mxfp4(module.packed, module.scales, scan);
  const Requantiser requantiser(method, scan);
  for (auto _ : state) {
    requantiser.convert(module.packed, module.scales, module.packed_out, module.blocks_out, *kernels);
    benchmark::ClobberMemory();
  }
  report(state, module.output_bytes());
}

void make_requantiser(benchmark::State& state, RequantMethod method) {
  Module module(kInCache);
  Mxfp4Scan scan;
  scan_mxfp4(module.packed, module.scales, scan);
  for (auto _ : state) {
    const Requantiser requantiser(method, scan);
    benchmark::DoNotOptimize(requantiser.scale_2());
  }
}

// Bytes are those of the bf16 input.
void quantise_fp8(benchmark::State& state, std::size_t bytes, const Kernels* kernels) {
  const std::uint64_t columns = 1024;
  const std::uint64_t rows = bytes / 2 / columns;
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<std::uint16_t> bf16(rows * columns);
  for (auto& value : bf16) value = bf16_round(normal(random));
  std::vector<std::byte> fp8(rows * columns);
  std::vector<float> scales((rows + 127) / 128 * (columns / 128));
  for (auto _ : state) {
    quantise_fp8_blocks(std::as_bytes(std::span(bf16)), rows, columns, fp8, scales, *kernels);
    benchmark::ClobberMemory();
  }
  report(state, bytes);
}

void add_size(const std::string& where, std::size_t bytes) {
  benchmark::RegisterBenchmark(("memcpy/" + where).c_str(), copy_memory, bytes);
  for (const Kernels* kernels : available_kernels()) {
    const std::string suffix = std::string("/") + kernels->name + "/" + where;
    benchmark::RegisterBenchmark(("cast" + suffix).c_str(), cast_experts, bytes, kernels);
    benchmark::RegisterBenchmark(("requantise_minmax" + suffix).c_str(), requantise, bytes, kernels,
                                 RequantMethod::kCompressedTensorsMinMax);
    benchmark::RegisterBenchmark(("requantise_four_over_six" + suffix).c_str(), requantise, bytes, kernels,
                                 RequantMethod::kFourOverSix);
    benchmark::RegisterBenchmark(("fp8_blocks" + suffix).c_str(), quantise_fp8, bytes, kernels);
  }
}

}  // namespace
}  // namespace perigee

int main(int argc, char** argv) {
  perigee::add_size("in_cache", perigee::kInCache);
  perigee::add_size("in_memory", perigee::kInMemory);
  benchmark::RegisterBenchmark("make_requantiser/minmax", perigee::make_requantiser,
                               perigee::RequantMethod::kCompressedTensorsMinMax);
  benchmark::RegisterBenchmark("make_requantiser/four_over_six", perigee::make_requantiser,
                               perigee::RequantMethod::kFourOverSix);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
