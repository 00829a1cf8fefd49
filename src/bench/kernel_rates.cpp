#include "bench/kernel_rates.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <numeric>
#include <vector>

#include "bench/stopwatch.h"
#include "numerics/expert_scan.h"
#include "numerics/fp8_block.h"
#include "numerics/lossless_cast.h"
#include "numerics/requantise.h"

namespace perigee {
namespace {

constexpr std::size_t kGroups = 16384;  // 256 kB of nibbles: input and output fit a 1 MB cache
constexpr std::size_t kMemoryWords = std::size_t{1} << 24;  // 128 MiB, beyond the last cache
constexpr double kSecondsPerKernel = 1.0;
constexpr std::size_t kRounds = 25;  // the median of so many

// A stream of bits that no branch predictor learns; quality does not matter here.
class Random {
 public:
  std::uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    return state_ ^= state_ << 17;
  }

 private:
  std::uint64_t state_ = 0x9E3779B97F4A7C15ULL;
};

double median_rate(double bytes_per_call, const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  call();
  std::vector<double> rates;
  const double budget = kSecondsPerKernel / static_cast<double>(kRounds);
  for (std::size_t round = 0; round < kRounds; ++round) {
    const auto begin = Clock::now();
    double calls = 0;
    std::chrono::duration<double> spent{};
    do {
      call();
      ++calls;
      spent = Clock::now() - begin;
    } while (spent.count() < budget);
    rates.push_back(calls * bytes_per_call / spent.count());
  }
  std::ranges::nth_element(rates, rates.begin() + kRounds / 2);
  return rates[kRounds / 2];
}

struct Buffers {
  std::vector<std::byte> nibbles = std::vector<std::byte>(kGroups * 16);
  std::vector<std::byte> scales = std::vector<std::byte>(kGroups);
  std::vector<std::byte> nibbles_out = std::vector<std::byte>(kGroups * 16);
  std::vector<std::byte> blocks_out = std::vector<std::byte>(kGroups * 2);
  Buffers() {
    Random random;
    for (std::byte& byte : nibbles) byte = static_cast<std::byte>(random.next() >> 32);
    for (std::byte& byte : scales) byte = static_cast<std::byte>(115 + (random.next() >> 32) % 6);
  }
  double output_bytes() const { return static_cast<double>(nibbles_out.size() + blocks_out.size()); }
};

double cast_rate(Buffers& b) {
  return median_rate(b.output_bytes(), [&b] {
    Mxfp4Scan scan;
    copy_and_scan_mxfp4(b.nibbles, b.scales, b.nibbles_out, scan);
    expand_scales(b.scales, make_cast_table(scan.max_exponent()), b.blocks_out);
  });
}

double requant_rate(Buffers& b, RequantMethod method) {
  Mxfp4Scan scan;
  scan_mxfp4(b.nibbles, b.scales, scan);
  const Requantiser requantiser(method, scan);
  return median_rate(b.output_bytes(),
                     [&] { requantiser.convert(b.nibbles, b.scales, b.nibbles_out, b.blocks_out); });
}

double fp8_rate() {
  constexpr std::uint64_t kRows = 128;
  constexpr std::uint64_t kColumns = 1024;
  Random random;
  std::vector<std::byte> bf16(kRows * kColumns * 2);
  for (std::size_t i = 0; i < bf16.size(); i += 2) {
    const auto bits =
        static_cast<std::uint16_t>(0x3C00 | ((random.next() >> 32) & 0x81FF));  // +-0.0078 to 0.031
    std::memcpy(&bf16[i], &bits, 2);
  }
  std::vector<std::byte> fp8(kRows * kColumns);
  std::vector<float> scales(kColumns / kFp8Tile);
  return median_rate(static_cast<double>(bf16.size()),
                     [&] { (void)quantise_fp8_blocks(bf16, kRows, kColumns, fp8, scales); });
}

}  // namespace

std::vector<KernelRate> measure_kernel_rates() {
  Buffers buffers;
  const double copy = median_rate(static_cast<double>(buffers.nibbles.size()), [&buffers] {
    std::memcpy(buffers.nibbles_out.data(), buffers.nibbles.data(), buffers.nibbles.size());
  });
  return {{"copying (the limit)", "output", copy, 0},
          {"lossless cast", "output", cast_rate(buffers), 10e9},
          {"requantise, ModelOpt", "output", requant_rate(buffers, RequantMethod::kModelOptMax), 2e9},
          {"requantise, compressed-tensors", "output",
           requant_rate(buffers, RequantMethod::kCompressedTensorsMinMax), 2e9},
          {"FP8 128x128 blocks", "input", fp8_rate(), 0}};
}

double measure_memory_read_rate() {
  const std::vector<std::uint64_t> words(kMemoryWords, 1);
  std::uint64_t sum = 0;
  std::vector<double> seconds;
  for (std::size_t round = 0; round < kRounds; ++round) {
    seconds.push_back(cpu_seconds([&words, &sum] {
      // Four sums, so that no addition waits for the one before.
      std::array<std::uint64_t, 4> sums{};
      for (std::size_t i = 0; i < words.size(); i += sums.size()) {
        for (std::size_t lane = 0; lane < sums.size(); ++lane) sums[lane] += words[i + lane];
      }
      sum += sums[0] + sums[1] + sums[2] + sums[3];
    }));
  }
  std::ranges::nth_element(seconds, seconds.begin() + kRounds / 2);
  // The sum is used, so the reading cannot be left out.
  return sum == kRounds * kMemoryWords ? 8.0 * kMemoryWords / seconds[kRounds / 2] : 0;
}

}  // namespace perigee
