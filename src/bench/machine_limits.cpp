#include "bench/machine_limits.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "bench/statistics.h"
#include "bench/stopwatch.h"

#if defined(__x86_64__)
// GCC 12 takes the undefined operands inside its own AVX-512 intrinsics for mistakes (its bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>
#endif

namespace perigee {
namespace {

constexpr std::size_t kLine = 64;              // a thread reads whole cache lines
constexpr std::size_t kLinesAtOnce = 8;        // a step of the loop: as many independent loads
constexpr std::size_t kPeakSteps = 2'000'000;  // some milliseconds
constexpr std::size_t kSums = 12;              // more than latency times ports, so that no sum is waited for

using Read = void (*)(const std::byte* memory, std::size_t steps);
using Multiply = void (*)(std::size_t steps);

struct PeakLoop {
  const char* name;
  const char* backend;
  std::size_t macs_per_step;
  bool available;
  Multiply run;
};

#if defined(__x86_64__)

// `asm` that takes a sum: its only reader, so that the loop is not left out. `asm` that might change one:
// equal sums would be computed once.
#include "compute/cpu/target_avx2.h"
void read_avx2(const std::byte* memory, std::size_t steps) {
  __m256i sums[2 * kLinesAtOnce] = {};
  for (std::size_t step = 0; step < steps; ++step) {
#pragma GCC unroll 16
    for (std::size_t i = 0; i < 2 * kLinesAtOnce; ++i) {
      const auto* from = reinterpret_cast<const __m256i*>(memory + (step * 2 * kLinesAtOnce + i) * 32);
      sums[i % 8] = _mm256_xor_si256(sums[i % 8], _mm256_loadu_si256(from));
    }
  }
  for (std::size_t i = 0; i < 8; ++i) asm volatile("" : : "x"(sums[i]));
}

void multiply_avx2(std::size_t steps) {
  __m256 sums[kSums] = {};
  for (std::size_t i = 0; i < kSums; ++i) asm volatile("" : "+x"(sums[i]));
  __m256 factor = _mm256_set1_ps(0.5f);
  for (std::size_t step = 0; step < steps; ++step) {
    asm volatile("" : "+x"(factor));
#pragma GCC unroll 12
    for (std::size_t i = 0; i < kSums; ++i) sums[i] = _mm256_fmadd_ps(factor, factor, sums[i]);
  }
  for (std::size_t i = 0; i < kSums; ++i) asm volatile("" : : "x"(sums[i]));
}
#include "compute/cpu/target_end.h"

#include "compute/cpu/target_avx512.h"
void read_avx512(const std::byte* memory, std::size_t steps) {
  __m512i sums[kLinesAtOnce] = {};
  for (std::size_t step = 0; step < steps; ++step) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kLinesAtOnce; ++i) {
      const __m512i line = _mm512_loadu_si512(memory + (step * kLinesAtOnce + i) * kLine);
      sums[i] = _mm512_xor_si512(sums[i], line);
    }
  }
  for (std::size_t i = 0; i < kLinesAtOnce; ++i) asm volatile("" : : "v"(sums[i]));
}

void multiply_avx512(std::size_t steps) {
  __m512 sums[kSums] = {};
  for (std::size_t i = 0; i < kSums; ++i) asm volatile("" : "+v"(sums[i]));
  __m512 factor = _mm512_set1_ps(0.5f);
  for (std::size_t step = 0; step < steps; ++step) {
    asm volatile("" : "+v"(factor));
#pragma GCC unroll 12
    for (std::size_t i = 0; i < kSums; ++i) sums[i] = _mm512_fmadd_ps(factor, factor, sums[i]);
  }
  for (std::size_t i = 0; i < kSums; ++i) asm volatile("" : : "v"(sums[i]));
}
#include "compute/cpu/target_end.h"

#include "compute/cpu/target_avx512_bf16.h"
void multiply_bf16(std::size_t steps) {
  __m512 sums[kSums] = {};
  for (std::size_t i = 0; i < kSums; ++i) asm volatile("" : "+v"(sums[i]));
  __m512i factor = _mm512_set1_epi16(0x3F00);  // 0.5
  for (std::size_t step = 0; step < steps; ++step) {
    asm volatile("" : "+v"(factor));
#pragma GCC unroll 12
    for (std::size_t i = 0; i < kSums; ++i)
      sums[i] = _mm512_dpbf16_ps(sums[i], (__m512bh)factor, (__m512bh)factor);
  }
  for (std::size_t i = 0; i < kSums; ++i) asm volatile("" : : "v"(sums[i]));
}
#include "compute/cpu/target_end.h"

Read fastest_read() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) return read_avx512;
  if (__builtin_cpu_supports("avx2")) return read_avx2;
  return nullptr;
}

std::vector<PeakLoop> peak_loops() {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f");
  const bool bf16 = avx512 && __builtin_cpu_supports("avx512bf16");
  return {{"AVX2 FMA", "avx2", kSums * 8, avx2, multiply_avx2},
          {"AVX-512 FMA", "avx512", kSums * 16, avx512, multiply_avx512},
          {"BF16 dot", "avx512-bf16", kSums * 32, bf16, multiply_bf16}};
}

#else

Read fastest_read() {
  return nullptr;
}

std::vector<PeakLoop> peak_loops() {
  return {};
}

#endif

// For processors without a loop of their own above.
void read_words(const std::byte* memory, std::size_t steps) {
  std::uint64_t sums[kLinesAtOnce] = {};
  const std::size_t words = steps * kLinesAtOnce * kLine / sizeof(std::uint64_t);
  for (std::size_t i = 0; i < words; i += kLinesAtOnce) {
    for (std::size_t j = 0; j < kLinesAtOnce; ++j) {
      std::uint64_t word = 0;
      std::memcpy(&word, memory + (i + j) * sizeof word, sizeof word);
      sums[j] ^= word;
    }
  }
  for (const std::uint64_t sum : sums) asm volatile("" : : "r"(sum));
}

double macs_per_second(const PeakLoop& loop, ThreadPool& pool) {
  const double seconds = work_seconds(pool.threads(), [&] {
    pool.parallel_for(pool.threads(), 1, [&](std::size_t begin, std::size_t end) {
      for (std::size_t thread = begin; thread < end; ++thread) loop.run(kPeakSteps);
    });
  });
  return static_cast<double>(pool.threads() * kPeakSteps * loop.macs_per_step) / seconds;
}

}  // namespace

double read_stream_seconds(std::span<const std::byte> memory, ThreadPool& pool) {
  static const Read kFastest = fastest_read();
  const Read read = kFastest != nullptr ? kFastest : read_words;
  constexpr std::size_t kStep = kLinesAtOnce * kLine;
  constexpr std::size_t kGrain = 16384 / kStep;
  return work_seconds(pool.threads(), [&] {
    pool.parallel_for(memory.size() / kStep, kGrain, [&](std::size_t begin, std::size_t end) {
      read(memory.data() + begin * kStep, end - begin);
    });
  });
}

double measure_peak(const std::string& backend, ThreadPool& pool) {
  const std::vector<PeakLoop> loops = peak_loops();
  const auto own = std::ranges::find_if(loops, [&](const PeakLoop& loop) { return backend == loop.backend; });
  if (own == loops.end() || !own->available) return 0;
  double best = 0;
  for (auto loop = loops.begin(); loop <= own; ++loop) best = std::max(best, macs_per_second(*loop, pool));
  return best;
}

std::vector<ComputePeak> measure_compute_peaks(ThreadPool& pool, unsigned rounds) {
  std::vector<ComputePeak> peaks;
  for (const PeakLoop& loop : peak_loops()) {
    if (!loop.available) continue;
    std::vector<double> rates;
    for (unsigned round = 0; round < rounds; ++round) rates.push_back(macs_per_second(loop, pool));
    peaks.push_back({loop.name, loop.backend, median(rates)});
  }
  return peaks;
}

}  // namespace perigee
