#include "cli/model_options.h"

#include <fmt/format.h>

#include <chrono>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "cli/choice.h"
#include "experts/streamed_experts.h"
#include "experts/usage_file.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void add_memory_options(CLI::App& command, ModelOptions& options) {
  constexpr const char* kGroup = "Memory";
  command
      .add_option("--ram", options.ram_bytes,
                  "Memory that weights, states and activations may use, e.g. 64G [what is available]")
      ->transform(CLI::AsSizeValue(true))
      ->type_name("SIZE")
      ->group(kGroup);
  add_choice(
      command, "--experts", options.experts,
      {{"auto", ExpertHome::kAuto}, {"resident", ExpertHome::kResident}, {"streamed", ExpertHome::kStreamed}},
      "Routed experts: all in memory, or from disk as they are needed; auto streams if not all fit")
      ->group(kGroup);
  add_choice(command, "--cache-policy", options.streaming.policy,
             {{"popular", CachePolicyKind::kPopular},
              {"least-stale", CachePolicyKind::kLeastStale},
              {"lru", CachePolicyKind::kLru}},
             "Which experts stay in memory while others are streamed")
      ->group(kGroup);
  command
      .add_flag("--prefetch,!--no-prefetch", options.streaming.prefetch,
                "Read ahead what the next layer will probably need [yes]")
      ->group(kGroup);
  add_choice(
      command, "--verify-reads", options.streaming.verify,
      {{"first", VerifyReads::kFirst}, {"always", VerifyReads::kAlways}, {"never", VerifyReads::kNever}},
      "When a store's experts are compared with their checksums")
      ->group(kGroup);
  command
      .add_flag("--lock-memory", options.streaming.lock_memory, "Keep the experts' memory from being swapped")
      ->group(kGroup);
  command
      .add_option("--usage", options.usage_file,
                  "File that remembers from run to run which experts are popular; made if it is not there")
      ->type_name("FILE")
      ->group(kGroup);
  command
      .add_option("--trace", options.trace_file,
                  "Write what the routers choose and what was foreseen, for perigee bench cache")
      ->type_name("FILE")
      ->group(kGroup);
}

std::unique_ptr<TraceWriter> open_trace(const std::filesystem::path& file, const LoadedModel& weights) {
  if (file.empty()) return nullptr;
  const K3Config& config = weights.config();
  const MemoryPlan& plan = weights.memory_plan();
  const std::uint64_t expert_bytes = plan.slots > 0 ? plan.experts / plan.slots : 0;
  return std::make_unique<TraceWriter>(file, config.num_hidden_layers, config.num_experts, expert_bytes);
}

Engine::Options engine_options(const LoadedModel& weights, TraceWriter* trace) {
  Engine::Options options;
  options.prompt_chunk = weights.memory_plan().prompt_chunk;
  if (trace != nullptr) {
    options.observe_routing = [trace](int layer, std::span<const RoutedToken> routed) {
      trace->visit(static_cast<std::uint32_t>(layer), routed);
    };
    options.observe_foresight = [trace](int layer, std::span<const std::uint32_t> experts) {
      trace->foresee(static_cast<std::uint32_t>(layer), experts);
    };
  }
  return options;
}

LoadedModel load_timed(const ModelOptions& options, const CancelToken& cancel, double& seconds) {
  const auto start = std::chrono::steady_clock::now();
  LoadedModel weights = load_weights(options, cancel);
  seconds = seconds_since(start);
  return weights;
}

}  // namespace

void add_model_option(CLI::App& command, ModelOptions& options, const std::string& name) {
  command
      .add_option(name, options.checkpoint,
                  "Checkpoint: a folder with config.json and shards, MXFP4 or NVFP4")
      ->type_name("CKPT")
      ->required();
  add_precision_option(command, options);
  add_memory_options(command, options);
}

void add_precision_option(CLI::App& command, ModelOptions& options) {
  add_choice(command, "--precision", options.precision,
             {{"bf16", Precision::kBf16}, {"f32", Precision::kF32}},
             "Rounding of activations: bf16 as the release computes, f32 none");
}

void add_backend_options(CLI::App& command, ModelOptions& options) {
  command
      .add_option("--backend", options.backend,
                  fmt::format("Instruction set, of {} on this machine; all give the same bits [the fastest]",
                              fmt::join(available_backends(), ", ")))
      ->type_name("NAME");
  command.add_option("--threads", options.threads, "Threads; no influence on results [all cores]")
      ->type_name("N")
      ->check(CLI::Range(1U, 4096U));
}

void add_model_vocabulary_option(CLI::App& command, ModelOptions& options) {
  command
      .add_option(
          "--vocab", options.vocabulary,
          "Vocabulary: a tiktoken file, or a folder that has tiktoken.model [the checkpoint's folder]")
      ->type_name("PATH");
}

const char* precision_name(Precision precision) {
  return precision == Precision::kBf16 ? "bf16" : "f32";
}

unsigned thread_count(const ModelOptions& options) {
  return options.threads > 0 ? options.threads : std::max(1U, std::thread::hardware_concurrency());
}

LoadedModel load_weights(const ModelOptions& options, const CancelToken& cancel) {
  std::optional<Progress> line;
  std::uint64_t shown = 0;
  LoadedModel::Options how;
  how.progress = [&](std::uint64_t done, std::uint64_t total) {
    cancel.check();
    if (!line) line.emplace("loading", total);
    line->add(done - shown);
    shown = done;
  };
  how.memory_limit_bytes = options.ram_bytes;
  how.experts = options.experts;
  how.precision = options.precision;
  how.streaming = options.streaming;
  if (!options.usage_file.empty()) {
    if (auto usage = load_usage(options.usage_file)) how.streaming.usage = std::move(*usage);
  }
  LoadedModel weights = LoadedModel::load(options.checkpoint, how);
  if (line) line->finish();
  return weights;
}

OpenModel::OpenModel(const ModelOptions& options, const CancelToken& cancel)
    : ops_(make_ops({options.precision, options.threads, options.backend})),
      backend_(ops_->name()),
      usage_file_(options.usage_file),
      weights_(load_timed(options, cancel, load_seconds_)),
      trace_(open_trace(options.trace_file, weights_)),
      model_(weights_, *ops_),
      engine_(model_, engine_options(weights_, trace_.get())) {}

OpenModel::~OpenModel() {
  try {
    if (trace_) trace_->finish();
    const StreamedExperts* streamed = weights_.streamed();
    if (streamed == nullptr || usage_file_.empty()) return;
    const ExpertUsage usage = streamed->usage();
    if (!usage.rates.empty()) save_usage(usage, usage_file_);
  } catch (const Error& error) {
    log_warning("{}", error.what());
  }
}

std::optional<Tokenizer> find_model_tokenizer(const ModelOptions& options) {
  if (!options.vocabulary.empty()) return Tokenizer(Vocabulary::load(options.vocabulary));
  std::error_code ignored;  // a folder that cannot be looked into has none
  if (!fs::is_regular_file(options.checkpoint / "tiktoken.model", ignored)) return std::nullopt;
  return Tokenizer(Vocabulary::load(options.checkpoint));
}

Tokenizer load_model_tokenizer(const ModelOptions& options) {
  std::optional<Tokenizer> tokenizer = find_model_tokenizer(options);
  if (tokenizer) return std::move(*tokenizer);
  std::error_code ignored;
  if (!fs::exists(options.checkpoint / "config.json", ignored)) {
    fail(ErrorCode::kNotFound, "{} is not a checkpoint: it has no config.json", options.checkpoint.string());
  }
  fail(ErrorCode::kNotFound, "{} has no tiktoken.model; give the model's vocabulary with --vocab",
       options.checkpoint.string());
}

void check_vocabulary_fits(const Tokenizer& tokenizer, const K3Config& config) {
  if (tokenizer.vocabulary().size() <= config.vocab_size) return;
  fail(ErrorCode::kMismatch,
       "the vocabulary has {} tokens and the model knows {}; give the model's own with --vocab",
       tokenizer.vocabulary().size(), config.vocab_size);
}

}  // namespace perigee
