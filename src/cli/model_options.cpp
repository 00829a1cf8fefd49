#include "cli/model_options.h"

#include <fmt/format.h>

#include <chrono>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/progress.h"
#include "cli/choice.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
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
  LoadedModel weights = LoadedModel::load(options.checkpoint, how);
  if (line) line->finish();
  return weights;
}

OpenModel::OpenModel(const ModelOptions& options, const CancelToken& cancel)
    : ops_(make_ops({options.precision, options.threads, options.backend})),
      backend_(ops_->name()),
      weights_(load_timed(options, cancel, load_seconds_)),
      model_(weights_, *ops_),
      engine_(model_, Engine::Options{}) {}

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
