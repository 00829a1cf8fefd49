#include "bench/matrix_bench.h"

#include <fmt/format.h>

#include <limits>
#include <thread>

#include "bench/statistics.h"
#include "bench/stopwatch.h"
#include "bench/weight_ring.h"
#include "compute/ops.h"

namespace perigee {
namespace {

// What all rows of a case share.
struct CaseMemory {
  const MatrixCase& shape;
  WeightRing ring;
  std::vector<Matrix> matrices;
  std::uint64_t bytes = 0;  // of all matrices

  CaseMemory(const MatrixCase& matrix, std::uint64_t memory_bytes)
      : shape(matrix),
        ring(matrix.format, memory_bytes),
        matrices(ring.take_all(matrix.rows, matrix.columns)) {
    for (const Matrix& one : matrices) bytes += matrix_bytes(one);
  }
};

double multiply_seconds(const CaseMemory& memory, const Ops& ops, unsigned threads, ConstRows x, Rows y) {
  return work_seconds(threads, [&] {
    for (const Matrix& matrix : memory.matrices) ops.linear(matrix, x, y);
  });
}

MatrixRate measure(const CaseMemory& memory, const Ops& ops, std::size_t batch, unsigned rounds,
                   ThreadPool& pool) {
  const MatrixCase& shape = memory.shape;
  const Tensor x = random_rows(batch, shape.columns, 1);
  Tensor y(batch, shape.rows);
  const auto bytes = static_cast<double>(memory.bytes);
  const double macs =
      static_cast<double>(memory.matrices.size() * shape.rows * shape.columns) * static_cast<double>(batch);
  const auto compute_seconds = [&] {
    const double peak = measure_peak(ops.name(), pool);
    return peak > 0 ? macs / peak : 0;
  };

  ops.linear(memory.matrices.front(), x, y);  // wakes the threads
  std::vector<double> seconds, streams, instructions, ratios;
  for (unsigned round = 0; round < rounds; ++round) {
    const double stream_rate =
        static_cast<double>(memory.ring.memory().size()) / read_stream_seconds(memory.ring.memory(), pool);
    streams.push_back(stream_rate);
    seconds.push_back(multiply_seconds(memory, ops, pool.threads(), x, y));
    instructions.push_back(compute_seconds());
    ratios.push_back(std::max(bytes / stream_rate, instructions.back()) / seconds.back());
  }
  MatrixRate rate;
  rate.backend = ops.name();
  rate.threads = pool.threads();
  rate.batch = batch;
  rate.bytes_per_second = bytes / median(seconds);
  rate.macs_per_second = macs / median(seconds);
  rate.stream_bytes_per_second = median(streams);
  rate.bound_by_memory = bytes / rate.stream_bytes_per_second >= median(instructions);
  rate.limit_bytes_per_second =
      rate.bound_by_memory ? rate.stream_bytes_per_second : bytes / median(instructions);
  rate.of_limit = median(ratios);
  return rate;
}

}  // namespace

std::vector<MatrixCase> k3_matrix_cases() {
  return {{"expert w1, w3", WeightFormat::kMxfp4, 3072, 3584},
          {"expert w2", WeightFormat::kMxfp4, 3584, 3072},
          {"expert w1, w3", WeightFormat::kNvfp4, 3072, 3584},
          {"expert w2", WeightFormat::kNvfp4, 3584, 3072},
          {"KDA q, k, v, g", WeightFormat::kBf16, 12288, 7168},
          {"KDA and MLA o", WeightFormat::kBf16, 7168, 12288},
          {"shared gate, up", WeightFormat::kBf16, 6144, 7168},
          {"latent down", WeightFormat::kBf16, 3584, 7168}};
}

MatrixBenchResult bench_matrices(const MatrixBenchOptions& options) {
  MatrixBenchResult result;
  for (const unsigned threads : options.threads) {
    ThreadPool pool(threads);
    result.peaks.emplace_back(threads, measure_compute_peaks(pool, options.rounds));
  }
  for (std::size_t i = 0; i < options.cases.size(); ++i) {
    const MatrixCase& shape = options.cases[i];
    const CaseMemory memory(shape, options.memory_bytes);
    for (const unsigned threads : options.threads) {
      ThreadPool pool(threads);
      for (const std::string& backend : options.backends) {
        const std::unique_ptr<Ops> ops = make_ops({Precision::kBf16, threads, backend});
        for (const std::size_t batch : options.batches) {
          if (options.announce) {
            options.announce(fmt::format("{} {}, {}, {} threads, {} tokens", shape.name,
                                         weight_format_name(shape.format), backend, threads, batch));
          }
          result.rates.push_back(measure(memory, *ops, batch, options.rounds, pool));
          result.rates.back().matrix = i;
        }
      }
    }
  }
  return result;
}

}  // namespace perigee
