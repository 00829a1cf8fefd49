#include "proof/block_parity.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <set>
#include <system_error>

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/safetensors.h"
#include "model/architecture.h"
#include "model/layers.h"
#include "proof/block_input.h"
#include "proof/cast_experts.h"
#include "proof/expert_difference.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Up to here a run of the scalar definition takes seconds.
constexpr std::uint64_t kQuickTrunkBytes = 20'000'000;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::uint64_t peak_memory_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

struct BlockModel {
  const K3Config& config;
  std::uint64_t layer;
  const LayerWeights& weights;
  ExpertSource& experts;
};

// The state of one sequence that only ever meets one layer.
SequenceState state_of_layer(const K3Config& config, std::uint64_t layer) {
  K3Config alone = config;
  alone.num_hidden_layers = 1;
  alone.is_mla = {config.is_mla[layer]};
  SequenceState state(alone);
  auto own = std::move(state.layers.front());
  state.layers.clear();
  for (std::uint64_t below = 0; below < layer; ++below)
    state.layers.emplace_back(MlaCache(0));  // are not run
  state.layers.push_back(std::move(own));
  return state;
}

void refuse_non_finite(const std::string& form, std::uint64_t layer, ConstRows values) {
  for (std::size_t row = 0; row < values.rows; ++row) {
    for (std::size_t c = 0; c < values.width; ++c) {
      if (std::isfinite(values[row][c])) continue;
      fail(ErrorCode::kCorrupt,
           "layer {} from {}: output channel {} of token {} is NaN or infinite, though all weights are "
           "numbers; "
           "these are no weights of a trained model",
           layer, form, c, row);
    }
  }
}

// Runs the layer and hashes what comes out of it.
class BlockRunner {
 public:
  BlockRunner(const BlockModel& model, const Ops& ops, BlockRun& run)
      : model_(model), ops_(ops), run_(run), state_(state_of_layer(model.config, model.layer)) {
    options_.observe = [this](std::string_view name, int, ConstRows values) { see(name, values); };
    options_.observe_routing = [this](int, std::span<const RoutedToken> routed) {
      for (const RoutedToken& token : routed) chosen_.insert(token.experts.begin(), token.experts.end());
    };
  }

  // `count` tokens more. Returns the seconds they took.
  double step(std::size_t count) {
    const SequenceRows rows{0, count, state_.position, &state_};
    const StepContext step{model_.config, ops_, model_.experts, {&rows, 1}, options_};
    ResidualStream stream = block_input(model_.config, model_.layer, state_.position, count);
    const auto start = Clock::now();
    decoder_layer(step, model_.layer, model_.weights, stream);
    state_.position += count;
    return seconds_since(start);
  }

  // Puts the hashes into the run; after the last step.
  void finish() {
    run_.attention_hash = attention_.value();
    run_.experts_hash = experts_.value();
    run_.layer_hash = layer_.value();
  }

  const std::set<std::uint32_t>& chosen() const { return chosen_; }

 private:
  void see(std::string_view name, ConstRows values) {
    const auto bytes = std::as_bytes(std::span(values.data, values.size()));
    if (name == "attn_out") attention_.update(bytes);
    if (name == "ffn_out") experts_.update(bytes);
    if (name != "prefix") return;
    refuse_non_finite(run_.form, model_.layer, values);
    layer_.update(bytes);
  }

  const BlockModel& model_;
  const Ops& ops_;
  BlockRun& run_;
  SequenceState state_;
  ForwardOptions options_;
  std::set<std::uint32_t> chosen_;
  Xxh3 attention_, experts_, layer_;
};

std::string dtype_text(const Fingerprint& print) {
  return fmt::format("{} of {}", shape_text(print.shape), dtype_name(print.dtype));
}

// The trunk is copied by a conversion, byte by byte.
void compare_trunks(const LoadedLayer& expected, const LoadedLayer& found, const std::string& form,
                    std::vector<BlockDifference>& differences) {
  std::map<std::string, const Fingerprint*> by_name;
  for (const Fingerprint& print : found.trunk_fingerprints()) by_name[print.name] = &print;
  for (const Fingerprint& print : expected.trunk_fingerprints()) {
    const auto other = by_name.find(print.name);
    if (other == by_name.end()) {
      differences.push_back({form, fmt::format("{} is not there", print.name)});
    } else if (*other->second != print) {
      differences.push_back({form, fmt::format("{} is {} with hash {:016x}, not {} with {:016x}", print.name,
                                               dtype_text(*other->second), other->second->hash,
                                               dtype_text(print), print.hash)});
    }
  }
}

void compare_experts(ExpertSource& expected, ExpertSource& found, std::uint64_t layer,
                     const std::vector<std::uint32_t>& chosen, const std::string& form,
                     std::vector<BlockDifference>& differences, const CancelToken& cancel) {
  for (const std::uint32_t expert : chosen) {
    cancel.check();
    const auto lease = expected.acquire(layer, {&expert, 1});
    const auto other_lease = found.acquire(layer, {&expert, 1});
    const auto difference = first_difference(lease->next()->weights, other_lease->next()->weights);
    if (!difference) continue;
    differences.push_back(
        {form, fmt::format("expert {} {} row {} column {} is {}, not {}", expert, difference->projection,
                           difference->row, difference->column, difference->found, difference->expected)});
  }
}

K3Config read_config(const fs::path& shard) {
  const fs::path folder = fs::is_directory(shard)   ? shard
                          : shard.has_parent_path() ? shard.parent_path()
                                                    : fs::path(".");
  const fs::path path = folder / "config.json";
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    fail(ErrorCode::kNotFound, "{} has no config.json beside it; download that too, it is small",
         shard.string());
  }
  K3Config config = load_config(path);
  check_architecture(path);
  return config;
}

class BlockCheck {
 public:
  BlockCheck(const BlockParityOptions& options, const CancelToken& cancel)
      : options_(options), cancel_(cancel), config_(read_config(options.shard)) {}

  BlockParity run() {
    const auto start = Clock::now();
    result_.layer = choose_moe_layer(config_, options_.shard, options_.layer);
    const LoadedLayer source = load(options_.shard);
    describe(source);
    make_backends(source.trunk_bytes());
    run_form(expert_format_name(source.expert_format()), source.weights(), source.experts());
    std::set<ExpertFormat> on_disk;
    for (const fs::path& against : options_.against) on_disk.insert(check_against(source, against));
    if (source.expert_format() == ExpertFormat::kMxfp4) check_casts(source, on_disk);
    for (BlockRun& run : result_.runs) run.equal = same_outputs(run, result_.runs.front());
    result_.seconds = seconds_since(start);
    result_.peak_memory_bytes = peak_memory_bytes();
    return std::move(result_);
  }

 private:
  void begin(const std::string& what) const {
    cancel_.check();
    if (options_.progress) options_.progress(what);
  }

  LoadedLayer load(const fs::path& path) const {
    begin(fmt::format("reading layer {} of {}", result_.layer, path.string()));
    LoadedLayer::Options how;
    how.memory_limit_bytes = options_.memory_limit_bytes;
    how.progress = [this](std::uint64_t, std::uint64_t) { cancel_.check(); };
    return LoadedLayer::load(config_, path, result_.layer, how);
  }

  void describe(const LoadedLayer& source) {
    result_.mla = config_.is_mla[result_.layer];
    result_.experts = config_.num_experts;
    result_.trunk_bytes = source.trunk_bytes();
    result_.expert_bytes = source.expert_bytes();
    result_.fingerprints = source.trunk_fingerprints();
    for (const std::uint64_t expert :
         std::set<std::uint64_t>{0, config_.num_experts / 2, config_.num_experts - 1}) {
      for (Fingerprint& print : source.expert_fingerprints(expert))
        result_.fingerprints.push_back(std::move(print));
    }
  }

  void make_backends(std::uint64_t trunk_bytes) {
    std::vector<std::string> names = options_.backends;
    if (names.empty()) {
      names = available_backends();
      const bool wanted = options_.reference || trunk_bytes <= kQuickTrunkBytes;
      if (!wanted && names.size() > 1) std::erase(names, "reference");
    }
    for (const std::string& name : names)
      backends_.push_back(make_ops({options_.precision, options_.threads, name}));
  }

  void run_form(const std::string& form, const LayerWeights& weights, ExpertSource& experts) {
    const BlockModel model{config_, result_.layer, weights, experts};
    for (const auto& ops : backends_) {
      begin(fmt::format("{} on {}", form, ops->name()));
      BlockRun run;
      run.form = form;
      run.backend = ops->name();
      BlockRunner runner(model, *ops, run);
      run.prompt_seconds = runner.step(options_.tokens);
      cancel_.check();
      run.decode_seconds = runner.step(1);
      runner.finish();
      if (result_.runs.empty()) result_.chosen.assign(runner.chosen().begin(), runner.chosen().end());
      result_.runs.push_back(std::move(run));
    }
  }

  ExpertFormat check_against(const LoadedLayer& source, const fs::path& path) {
    const LoadedLayer other = load(path);
    const std::string form = fmt::format("{}, {}", expert_format_name(other.expert_format()), path.string());
    compare_trunks(source, other, form, result_.differences);
    begin(fmt::format("comparing {} experts of {}", result_.chosen.size(), path.string()));
    compare_experts(source.experts(), other.experts(), result_.layer, result_.chosen, form,
                    result_.differences, cancel_);
    run_form(form, other.weights(), other.experts());
    return other.expert_format();
  }

  void check_casts(const LoadedLayer& source, const std::set<ExpertFormat>& on_disk) {
    const std::pair<ExpertFormat, Layout> casts[] = {
        {ExpertFormat::kNvfp4ModelOpt, Layout::kModelOpt},
        {ExpertFormat::kNvfp4CompressedTensors, Layout::kCompressedTensors}};
    for (const auto& [format, layout] : casts) {
      if (on_disk.contains(format)) continue;
      CastExperts cast(source.experts(), layout);
      run_form(fmt::format("{}, cast in memory", expert_format_name(format)), source.weights(), cast);
    }
  }

  static bool same_outputs(const BlockRun& a, const BlockRun& b) {
    return a.attention_hash == b.attention_hash && a.experts_hash == b.experts_hash &&
           a.layer_hash == b.layer_hash;
  }

  const BlockParityOptions& options_;
  const CancelToken& cancel_;
  const K3Config config_;
  std::vector<std::unique_ptr<Ops>> backends_;
  BlockParity result_;
};

}  // namespace

bool BlockParity::equal() const {
  return differences.empty() && runs.size() > 1 &&
         std::all_of(runs.begin(), runs.end(), [](const BlockRun& run) { return run.equal; });
}

BlockParity check_block_parity(const BlockParityOptions& options, const CancelToken& cancel) {
  if (options.tokens == 0) fail(ErrorCode::kUsage, "a block is compared over at least one token");
  return BlockCheck(options, cancel).run();
}

}  // namespace perigee
