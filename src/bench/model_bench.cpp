#include "bench/model_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/file.h"
#include "base/thread_pool.h"
#include "bench/layer_costs.h"
#include "bench/machine_limits.h"
#include "bench/statistics.h"
#include "bench/stopwatch.h"
#include "engine/engine.h"
#include "model/weights.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> shard_files(const fs::path& checkpoint) {
  std::vector<fs::path> files;
  std::error_code ignored;  // the loader says what is wrong with the folder
  for (const auto& entry : fs::directory_iterator(checkpoint, ignored)) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

void read_files(const std::vector<fs::path>& files) {
  constexpr std::size_t kPiece = std::size_t{16} << 20;
  std::vector<std::byte> piece(kPiece);
  for (const fs::path& path : files) {
    const File file = File::open_read(path);
    const std::uint64_t size = fs::file_size(path);
    for (std::uint64_t offset = 0; offset < size; offset += kPiece)
      file.read_exact(std::span(piece).first(std::min<std::uint64_t>(kPiece, size - offset)), offset);
  }
}

// Of the values without their scales.
std::size_t value_bytes(const Matrix& matrix) {
  const std::size_t elements = matrix.rows * matrix.columns;
  switch (matrix.format) {
    case WeightFormat::kF32:
    case WeightFormat::kBf16:
      return matrix_bytes(matrix);
    case WeightFormat::kMxfp4:
    case WeightFormat::kNvfp4:
      return elements / 2;
    case WeightFormat::kFp8Tile:
      return elements;
  }
  return 0;
}

// Calls use(Matrix) for every matrix that one token is multiplied with. Which experts it would choose does
// not matter here.
template <typename Use>
void for_token_matrices(const LoadedModel& weights, Use&& use) {
  const K3Config& config = weights.config();
  std::vector<std::uint32_t> experts(config.num_experts_per_token);
  std::iota(experts.begin(), experts.end(), 0U);
  for (std::size_t i = 0; i < config.num_hidden_layers; ++i) {
    const LayerWeights& w = weights.text().layers[i];
    for (const Matrix& matrix : attention_matrices(w)) use(matrix);
    for (const Matrix& matrix : ffn_matrices(w)) use(matrix);
    if (!config.is_moe(i)) continue;
    const std::unique_ptr<ExpertLease> lease = weights.experts().acquire(i, experts);
    while (const auto arrived = lease->next()) {
      for (const Matrix& matrix : {arrived->weights.w1, arrived->weights.w3, arrived->weights.w2})
        use(matrix);
    }
  }
  use(weights.text().lm_head);
}

double token_read_seconds(const LoadedModel& weights, ThreadPool& pool) {
  double seconds = 0;
  for_token_matrices(weights, [&](const Matrix& matrix) {
    const std::size_t values = value_bytes(matrix);
    seconds += read_stream_seconds({matrix.values, values}, pool);
    if (matrix.scales != nullptr)
      seconds += read_stream_seconds({matrix.scales, matrix_bytes(matrix) - values}, pool);
  });
  return seconds;
}

double prompt_macs(const LoadedModel& weights, std::size_t tokens) {
  const K3Config& config = weights.config();
  double macs = static_cast<double>(config.vocab_size) * static_cast<double>(config.hidden_size);
  for (std::size_t i = 0; i < config.num_hidden_layers; ++i) {
    const LayerWeights& w = weights.text().layers[i];
    const double of_token = ffn_macs(w) + (config.is_moe(i) ? routed_macs(config) : 0);
    macs += attention_macs(config, w, 0, tokens) + static_cast<double>(tokens) * of_token;
  }
  return macs;
}

// Any ids will do; always the same ones.
GenerationRequest request_of(const ModelBenchOptions& options, const K3Config& config) {
  GenerationRequest request;
  request.prompt.resize(options.prompt_tokens);
  for (std::size_t i = 0; i < request.prompt.size(); ++i)
    request.prompt[i] = static_cast<std::uint32_t>(i * 7919 % config.vocab_size);
  request.sampling.temperature = 0;
  request.max_tokens = options.tokens;
  return request;
}

struct Seconds {
  std::vector<double> load, files, prompt, peak, token, reads;
};

void measure_generation(const ModelBenchOptions& options, const LoadedModel& weights, const Ops& ops,
                        ThreadPool& pool, Seconds& seconds) {
  const Model model(weights, ops);
  const Engine engine(model, Engine::Options{});
  Sequence sequence(weights.config(), request_of(options, weights.config()));
  const std::vector<Sequence*> sequences = {&sequence};
  seconds.prompt.push_back(work_seconds(pool.threads(), [&] {
    while (sequence.in_prompt()) engine.step(sequences);
  }));
  while (!sequence.finished()) {
    seconds.reads.push_back(token_read_seconds(weights, pool));
    seconds.token.push_back(work_seconds(pool.threads(), [&] { engine.step(sequences); }));
  }
  if (sequence.failure()) std::rethrow_exception(sequence.failure());
}

}  // namespace

ModelBenchResult bench_model(const ModelBenchOptions& options) {
  const std::unique_ptr<Ops> ops = make_ops(options.ops);
  ThreadPool pool(options.ops.threads);
  ModelBenchResult result;
  result.backend = ops->name();
  result.threads = pool.threads();
  const std::vector<fs::path> files = shard_files(options.checkpoint);
  for (const fs::path& file : files) result.file_bytes += fs::file_size(file);
  Seconds seconds;
  for (unsigned round = 0; round < options.rounds; ++round) {
    const auto announce = [&](const char* step) {
      if (options.announce) options.announce(fmt::format("round {}: {}", round + 1, step));
    };
    announce("reading the files");
    if (round == 0) read_files(files);  // from here on they are in the page cache, if they fit
    seconds.files.push_back(wall_seconds([&] { read_files(files); }));
    announce("loading");
    const double begin = clock_seconds(CLOCK_MONOTONIC);
    const LoadedModel weights = LoadedModel::load(options.checkpoint, {});
    seconds.load.push_back(clock_seconds(CLOCK_MONOTONIC) - begin);
    announce("generating");
    seconds.peak.push_back(measure_peak(ops->name(), pool));
    measure_generation(options, weights, *ops, pool, seconds);
    if (round > 0) continue;
    result.prompt_macs = prompt_macs(weights, options.prompt_tokens);
    for_token_matrices(weights, [&](const Matrix& matrix) { result.token_bytes += matrix_bytes(matrix); });
  }
  const double macs_per_second = median(seconds.peak);
  result.load_seconds = median(seconds.load);
  result.load_limit_seconds = median(seconds.files);
  result.prompt_seconds = median(seconds.prompt);
  result.prompt_limit_seconds = macs_per_second > 0 ? result.prompt_macs / macs_per_second : 0;
  result.token_seconds = median(seconds.token);
  result.token_limit_seconds = median(seconds.reads);
  return result;
}

}  // namespace perigee
