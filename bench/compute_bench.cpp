// What reading weights costs: products of matrices of K3's shapes with a few tokens, in bytes of weights a
// second, beside what the same threads can read from memory. The matrices are many enough that no cache holds
// them.
#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "compute/ops.h"
#include "numerics/bf16.h"

namespace perigee {
namespace {

constexpr std::size_t kMemory = std::size_t{768} << 20;

std::vector<std::byte>& memory() {
  static std::vector<std::byte> bytes = [] {
    std::vector<std::byte> filled(kMemory);
    std::uint64_t state = 1;
    for (std::size_t i = 0; i < kMemory; i += 8) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      // Any byte is a nibble pair; as scale or upper half of a bf16 number it stays between 2^-31 and 2^32.
      const std::uint64_t word = (state >> 3 & 0x0F7F0F7F0F7F0F7Fu) | 0x3030303030303030u;
      std::memcpy(filled.data() + i, &word, 8);
    }
    return filled;
  }();
  return bytes;
}

// The read-only limit: every byte is loaded once and folded into a sum.
void read_memory(benchmark::State& state) {
  ThreadPool pool(static_cast<unsigned>(state.range(0)));
  const std::vector<std::byte>& bytes = memory();
  for (auto _ : state) {
    pool.parallel_for(kMemory / 64, 64, [&](std::size_t begin, std::size_t end) {
      using Line [[gnu::vector_size(64), gnu::may_alias, gnu::aligned(8)]] = long long;
      Line a{}, b{};
      for (std::size_t i = begin; i + 1 < end; i += 2) {
        a ^= *reinterpret_cast<const Line*>(bytes.data() + i * 64);
        b ^= *reinterpret_cast<const Line*>(bytes.data() + i * 64 + 64);
      }
      a ^= b;
      benchmark::DoNotOptimize(a);
    });
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(kMemory));
}

Matrix matrix_at(WeightFormat format, std::size_t rows, std::size_t columns, std::size_t index) {
  Matrix matrix{format, rows, columns, nullptr, nullptr, 1};
  const std::size_t size = (matrix_bytes(matrix) + 63) / 64 * 64;
  matrix.values = memory().data() + index % (kMemory / size) * size;
  Matrix values_only = matrix;
  const std::size_t scales = format == WeightFormat::kMxfp4 ? rows * columns / 32 : rows * columns / 16;
  matrix.scales = matrix.values + matrix_bytes(values_only) - scales;
  return matrix;
}

void linear(benchmark::State& state, const std::string& backend, WeightFormat format, std::size_t rows,
            std::size_t columns) {
  const auto ops = make_ops({Precision::kBf16, static_cast<unsigned>(state.range(0)), backend});
  const auto tokens = static_cast<std::size_t>(state.range(1));
  Tensor x(tokens, columns), y(tokens, rows);
  for (std::size_t i = 0; i < tokens * columns; ++i)
    x.values()[i] = round_to_bf16(static_cast<float>(i * 2654435761u % 2048) / 1024 - 1);
  std::size_t index = 0;
  for (auto _ : state) {
    ops->linear(matrix_at(format, rows, columns, index++), x, y);
    benchmark::DoNotOptimize(y[0][0]);
  }
  const auto bytes = static_cast<std::int64_t>(matrix_bytes(matrix_at(format, rows, columns, 0)));
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * bytes);
  state.counters["GMAC"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * static_cast<double>(rows * columns * tokens) / 1e9,
      benchmark::Counter::kIsRate);
}

void register_all() {
  const auto threads = static_cast<long>(ThreadPool(0).threads());
  benchmark::RegisterBenchmark("read_memory", read_memory)->Arg(1)->Arg(threads)->UseRealTime();
  struct Shape {
    const char* name;
    WeightFormat format;
    std::size_t rows, columns;
  };
  const Shape shapes[] = {{"expert", WeightFormat::kMxfp4, 3072, 3584},
                          {"expert", WeightFormat::kNvfp4, 3072, 3584},
                          {"latent_down", WeightFormat::kBf16, 3584, 7168},
                          {"latent_down", WeightFormat::kFp8Tile, 3584, 7168},
                          {"router", WeightFormat::kF32, 896, 7168}};
  for (const Shape& shape : shapes) {
    for (const std::string& backend : available_backends()) {
      if (backend == "reference") continue;
      const std::string name =
          std::string(shape.name) + "/" + weight_format_name(shape.format) + "/" + backend;
      auto* bench = benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
        linear(state, backend, shape.format, shape.rows, shape.columns);
      });
      bench->ArgNames({"threads", "tokens"})->UseRealTime();
      for (const long tokens : {1, 2, 4, 8, 64}) bench->Args({1, tokens});
      if (threads > 1) bench->Args({threads, 1})->Args({threads, 8});
    }
  }
}

}  // namespace
}  // namespace perigee

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  perigee::register_all();
  benchmark::RunSpecifiedBenchmarks();
}
