// What every command that runs a model has: -m, --precision, --backend, --threads, and how much memory the
// model may use and for what; and the loaded model with all that stands on it. Knows nothing of prompts.
#pragma once

#include <CLI/CLI.hpp>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/cancel.h"
#include "engine/engine.h"
#include "experts/trace.h"
#include "text/tokenizer.h"

namespace perigee {

struct ModelOptions {
  std::filesystem::path checkpoint;
  std::filesystem::path vocabulary;  // empty: the checkpoint's folder
  std::string backend;               // empty: the fastest
  unsigned threads = 0;              // 0: all cores
  Precision precision = Precision::kBf16;

  std::uint64_t ram_bytes = 0;  // 0: what the machine has available
  ExpertHome experts = ExpertHome::kAuto;
  StreamedOptions streaming;
  std::filesystem::path usage_file;  // how often experts were used, from run to run; empty: not kept
  std::filesystem::path trace_file;  // what routers chose, for `perigee bench cache`; empty: none
};

// -m/--model (or `name`), --precision, and the options of memory: --ram, --experts, ….
void add_model_option(CLI::App& command, ModelOptions& options, const std::string& name = "-m,--model");
// --precision alone.
void add_precision_option(CLI::App& command, ModelOptions& options);
// --backend, --threads.
void add_backend_options(CLI::App& command, ModelOptions& options);
// --vocab, whose default is the checkpoint's folder.
void add_model_vocabulary_option(CLI::App& command, ModelOptions& options);

const char* precision_name(Precision precision);  // "bf16", "f32"

// The threads that a backend really uses.
unsigned thread_count(const ModelOptions& options);

// Loads the weights; on a terminal a line shows how far it is. kInterrupted if cancelled meanwhile.
LoadedModel load_weights(const ModelOptions& options, const CancelToken& cancel);

// A model ready to run. Stays where it is, because its parts refer to each other.
class OpenModel {
 public:
  OpenModel(const ModelOptions& options, const CancelToken& cancel);

  ~OpenModel();  // keeps what is to be kept for the next run

  const K3Config& config() const { return weights_.config(); }
  const LoadedModel& weights() const { return weights_; }
  const Model& model() const { return model_; }
  const Engine& engine() const { return engine_; }
  const std::string& backend() const { return backend_; }
  double load_seconds() const { return load_seconds_; }

  OpenModel(const OpenModel&) = delete;
  OpenModel& operator=(const OpenModel&) = delete;

 private:
  std::unique_ptr<Ops> ops_;  // first, so that a wrong name is told before anything is loaded
  std::string backend_;
  double load_seconds_ = 0;
  std::filesystem::path usage_file_;
  LoadedModel weights_;
  std::unique_ptr<TraceWriter> trace_;  // null: none is wanted
  Model model_;
  Engine engine_;
};

// The vocabulary of the options; unset if none was given and the checkpoint's folder has none.
std::optional<Tokenizer> find_model_tokenizer(const ModelOptions& options);
// The same, kNotFound if there is none.
Tokenizer load_model_tokenizer(const ModelOptions& options);
// kMismatch if the vocabulary has ids that the model does not know: it belongs to another model.
void check_vocabulary_fits(const Tokenizer& tokenizer, const K3Config& config);

}  // namespace perigee
