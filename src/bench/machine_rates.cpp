#include "bench/machine_rates.h"

#include <memory>

#include "bench/statistics.h"
#include "bench/stopwatch.h"
#include "bench/weight_ring.h"
#include "compute/ops.h"

namespace perigee {
namespace {

constexpr unsigned kRounds = 3;
// Products with many tokens run over this much of the memory: they take long, and caches do not help them.
constexpr std::size_t kPromptMatrices = 4;

double product_seconds(const Ops& ops, std::span<const Matrix> matrices, std::size_t tokens,
                       unsigned threads) {
  const Tensor x = random_rows(tokens, matrices.front().columns, 1);
  Tensor y(tokens, matrices.front().rows);
  ops.linear(matrices.front(), x, y);  // wakes the threads
  return work_seconds(threads, [&] {
    for (const Matrix& matrix : matrices) ops.linear(matrix, x, y);
  });
}

ProductRates products_of(WeightRing& ring, const MachineRatesOptions& options) {
  const std::unique_ptr<Ops> ops = make_ops({Precision::kBf16, options.threads, options.backend});
  const unsigned threads = ThreadPool(options.threads).threads();
  const std::vector<Matrix> matrices = ring.take_all(options.rows, options.columns);
  const std::span<const Matrix> few(matrices.data(), std::min(kPromptMatrices, matrices.size()));
  const auto one = static_cast<double>(options.rows) * static_cast<double>(options.columns);
  const auto bytes =
      static_cast<double>(matrix_bytes(matrices.front())) * static_cast<double>(matrices.size());
  const double macs = one * static_cast<double>(few.size() * kPromptTokens);
  std::vector<double> one_token, prompt;
  for (unsigned round = 0; round < kRounds; ++round) {
    one_token.push_back(bytes / product_seconds(*ops, matrices, 1, threads));
    prompt.push_back(macs / product_seconds(*ops, few, kPromptTokens, threads));
  }
  return {median(one_token), median(prompt)};
}

double memory_rate(const WeightRing& ring, ThreadPool& pool) {
  std::vector<double> rates;
  for (unsigned round = 0; round < kRounds; ++round) {
    rates.push_back(static_cast<double>(ring.memory().size()) / read_stream_seconds(ring.memory(), pool));
  }
  return median(rates);
}

}  // namespace

ProductRates measure_products(WeightFormat format, const MachineRatesOptions& options) {
  WeightRing ring(format, options.memory_bytes);
  return products_of(ring, options);
}

MachineRates measure_machine(const MachineRatesOptions& options, const CancelToken& cancel) {
  const auto announce = [&](const char* step) {
    cancel.check();
    if (options.announce) options.announce(step);
  };
  MachineRates rates;
  rates.backend = make_ops({Precision::kBf16, options.threads, options.backend})->name();
  announce("instructions in registers");
  {
    ThreadPool pool(options.threads);
    rates.threads = pool.threads();
    rates.peaks = measure_compute_peaks(pool, kRounds);
    announce("memory");
    WeightRing ring(WeightFormat::kBf16, options.memory_bytes);
    rates.memory_bytes_per_second = memory_rate(ring, pool);
    announce("products with BF16 weights");
    rates.bf16 = products_of(ring, options);
  }
  announce("products with MXFP4 weights");
  MachineRatesOptions quarter = options;
  quarter.memory_bytes = options.memory_bytes / 4;  // as many weights
  rates.mxfp4 = measure_products(WeightFormat::kMxfp4, quarter);
  announce("the drive");
  rates.drive = measure_drive(options.folder, options.record_bytes, options.drive_seconds, cancel);
  return rates;
}

}  // namespace perigee
