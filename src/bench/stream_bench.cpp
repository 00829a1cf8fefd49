#include "bench/stream_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "bench/stopwatch.h"
#include "bench/weight_ring.h"
#include "checkpoint/config.h"
#include "compute/ops.h"
#include "experts/expert_files.h"
#include "experts/replay.h"
#include "experts/step_model.h"
#include "experts/streamed_experts.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kMostDepth = 4;  // that is measured

std::unique_ptr<ExpertFiles> open_experts(const fs::path& folder) {
  return is_store(folder) ? open_store_experts(folder) : open_checkpoint_experts(folder);
}

std::uint64_t first_layer(const ExpertFiles& files) {
  for (std::uint64_t layer = 0; layer < files.layers(); ++layer) {
    if (files.has_experts(layer)) return layer;
  }
  fail(ErrorCode::kUsage, "the model has no routed experts; there is nothing to stream");
}

// The drawn one has the folder's sizes.
Trace trace_for(const StreamBenchOptions& options, const ExpertFiles& files, std::uint64_t top_k) {
  Trace trace;
  if (options.trace.empty()) {
    SyntheticRouting routing = options.synthetic;
    routing.layers = files.layers();
    routing.experts = files.experts();
    routing.first_moe_layer = first_layer(files);
    routing.top_k = std::min(top_k, files.experts() / 2);
    routing.expert_bytes = files.largest_run();
    trace = make_synthetic_trace(routing);
    std::erase_if(trace.visits, [&](const TraceVisit& visit) { return !files.has_experts(visit.layer); });
    return trace;
  }
  trace = load_trace(options.trace);
  const auto has = [&](const TraceVisit& v) {
    return v.layer < files.layers() && files.has_experts(v.layer);
  };
  if (trace.experts != files.experts() || !std::ranges::all_of(trace.visits, has)) {
    fail(ErrorCode::kUsage, "{} was recorded with another model than {}", options.trace.string(),
         options.folder.string());
  }
  return trace;
}

// A token's work with one expert: three products and the activation between them.
class Multiplier {
 public:
  Multiplier(const Ops& ops, std::size_t hidden) : ops_(ops), x_(random_rows(1, hidden, 1)), y_(1, hidden) {}

  void multiply(const ExpertWeights& w) {
    if (gate_.width() != w.w1.rows) gate_ = up_ = active_ = Tensor(1, w.w1.rows);
    ops_.linear(w.w1, x_, gate_);
    ops_.linear(w.w3, x_, up_);
    ops_.situ(gate_, up_, {1, 1}, active_);
    ops_.linear(w.w2, active_, y_);
  }

 private:
  const Ops& ops_;
  Tensor x_, y_;
  Tensor gate_, up_, active_;
};

struct Setting {
  const StreamBenchOptions& options;
  const Trace& trace;
  std::size_t warm_up = 0;  // visits
  std::uint64_t latent = 0;
  const Ops* ops = nullptr;  // null: nothing is multiplied
  double expert_seconds = 0;
};

double tokens_after(const Trace& trace, std::size_t skip) {
  Trace counted{trace.layers, trace.experts, trace.expert_bytes, {}};
  counted.visits.assign(trace.visits.begin() + static_cast<std::ptrdiff_t>(skip), trace.visits.end());
  return std::max(1.0, static_cast<double>(counted.tokens()));
}

// Replays the trace through the policy, then adds up the layers.
void predict(const Setting& setting, const DriveModel& drive, std::uint64_t record_bytes, StreamRow& row) {
  ReplayOptions how;
  how.policy = setting.options.policy;
  how.slots = row.slots;
  how.prefetch = setting.options.prefetch;
  how.skip = setting.warm_up;
  const ReplayResult result = replay(setting.trace, how);
  const double tokens = tokens_after(setting.trace, setting.warm_up);
  const auto visits = static_cast<double>(setting.trace.visits.size() - setting.warm_up);
  LayerModel layer;
  layer.reads = static_cast<double>(result.reads_demand) / visits;
  layer.experts = static_cast<double>(result.asked) / visits;
  layer.expert_seconds = setting.expert_seconds;
  row.predicted_hit_rate = result.hit_rate();
  row.predicted_step_bytes = result.reads_a_token() * static_cast<double>(record_bytes);
  row.predicted_step_seconds =
      visits / tokens * mean_layer_seconds(drive, static_cast<double>(record_bytes), layer);
}

// One visit after the other, as a forward pass makes them. Adds up reads under way into `under_way`.
void run_visits(StreamedExperts& source, const Setting& setting, std::size_t begin, std::size_t end,
                const CancelToken& cancel, std::vector<double>& under_way) {
  std::optional<Multiplier> multiplier;
  if (setting.ops != nullptr) multiplier.emplace(*setting.ops, setting.latent);
  const std::vector<TraceVisit>& visits = setting.trace.visits;
  for (std::size_t v = begin; v < end; ++v) {
    cancel.check();
    const std::unique_ptr<ExpertLease> lease = source.acquire(visits[v].layer, visits[v].experts);
    if (setting.options.prefetch && v + 1 < visits.size())
      source.prefetch(visits[v + 1].layer, visits[v + 1].foreseen);
    while (const auto arrived = lease->next()) {
      under_way.push_back(static_cast<double>(source.statistics().reading));
      if (multiplier) multiplier->multiply(arrived->weights);
    }
  }
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

void measure(const Setting& setting, const CancelToken& cancel, StreamRow& row, std::string& io) {
  StreamedOptions how;
  how.slots = row.slots;
  how.policy = setting.options.policy;
  how.prefetch = setting.options.prefetch;
  StreamedExperts source(open_experts(setting.options.folder), how);
  io = source.io_name();
  std::vector<double> under_way;
  run_visits(source, setting, 0, setting.warm_up, cancel, under_way);
  under_way.clear();
  const StreamingStatistics before = source.statistics();
  double wall = 0;
  const double cpu = cpu_seconds([&] {
    wall = wall_seconds([&] {
      run_visits(source, setting, setting.warm_up, setting.trace.visits.size(), cancel, under_way);
    });
  });
  const StreamingStatistics after = source.statistics();
  const double tokens = tokens_after(setting.trace, setting.warm_up);
  const auto difference = [](auto now, auto then) { return static_cast<double>(now - then); };
  const double bytes =
      difference(after.bytes_demand + after.bytes_prefetch, before.bytes_demand + before.bytes_prefetch);
  const double hits = difference(after.hits_pinned + after.hits_pool + after.hits_prefetch,
                                 before.hits_pinned + before.hits_pool + before.hits_prefetch);
  const double busy = after.disk_seconds - before.disk_seconds;
  row.slot_bytes = after.slot_bytes;
  row.hit_rate = hits / std::max(1.0, difference(after.asked, before.asked));
  row.step_seconds = wall / tokens;
  row.step_bytes = bytes / tokens;
  row.disk_bytes_per_second = busy > 0 ? bytes / busy : 0;
  row.cpu_seconds_per_gigabyte = bytes > 0 ? cpu / (bytes / 1e9) : 0;
  row.reads_under_way = mean(under_way);
}

// The drive's rates at depths 1, 2 and 4 with records as large as an expert's read, anywhere in its files.
class DriveLimit {
 public:
  DriveLimit(const ExpertFiles& files, double seconds)
      : record_bytes_(align_up(files.largest_run(), kDirectAlignment)),
        seconds_(seconds),
        io_(make_async_io()) {
    for (const fs::path& path : files.files()) files_.push_back(File::open_read(path, Caching::kDirect));
    places_ = shuffled_places(files_, record_bytes_);
    if (places_.empty()) fail(ErrorCode::kUsage, "the files are smaller than one expert");
  }

  void measure() {
    for (unsigned depth = 1; depth <= kMostDepth; depth *= 2) {
      rates_[depth].push_back(
          read_records(*io_, {files_, places_, record_bytes_}, depth, seconds_ / 3, next_).bytes_per_second);
    }
  }
  // Of the last two measurements.
  DriveModel model() const {
    std::vector<DriveModel::Point> points;
    for (const auto& [depth, rates] : rates_) {
      const std::size_t last = rates.size() - 1;
      points.push_back({depth, (rates[last] + rates[last > 0 ? last - 1 : 0]) / 2});
    }
    return DriveModel::through(points, StreamedOptions{}.reads_per_drive);
  }
  std::uint64_t record_bytes() const { return record_bytes_; }

 private:
  std::vector<File> files_;
  std::vector<RecordPlace> places_;
  std::uint64_t record_bytes_;
  double seconds_;
  std::size_t next_ = 0;
  std::map<unsigned, std::vector<double>> rates_;
  std::unique_ptr<AsyncIo> io_;
};

// With experts that are in memory: as many in turn as no cache holds, where there are as many.
double measure_expert_seconds(const Setting& setting) {
  constexpr std::size_t kMost = 32;
  std::vector<std::uint32_t> some;
  for (std::uint32_t e = 0; e < std::min<std::uint64_t>(kMost, setting.trace.experts); ++e) some.push_back(e);
  StreamedOptions how;
  how.slots = some.size();
  how.policy = CachePolicyKind::kLru;
  StreamedExperts source(open_experts(setting.options.folder), how);
  Multiplier multiplier(*setting.ops, setting.latent);
  std::vector<double> seconds;  // their mean, because other work of the machine counts, too
  const std::uint32_t layer = setting.trace.visits.front().layer;
  for (unsigned round = 0; round < 3; ++round) {
    std::unique_ptr<ExpertLease> lease = source.acquire(layer, some);
    while (const auto arrived = lease->next()) {
      const double one = wall_seconds([&] { multiplier.multiply(arrived->weights); });
      if (round > 0) seconds.push_back(one);  // nothing is read any more
    }
  }
  return mean(seconds);
}

}  // namespace

StreamBenchResult bench_stream(const StreamBenchOptions& options, const CancelToken& cancel) {
  const auto announce = [&](const std::string& step) {
    cancel.check();
    if (options.announce) options.announce(step);
  };
  const K3Config config = load_config(options.folder / "config.json");
  const std::unique_ptr<ExpertFiles> files = open_experts(options.folder);
  const Trace trace = trace_for(options, *files, config.num_experts_per_token);
  const std::unique_ptr<Ops> ops = make_ops({Precision::kBf16, options.threads, options.backend});
  Setting setting{options, trace, 0, config.routed_expert_hidden_size, options.multiply ? ops.get() : nullptr,
                  0};
  setting.warm_up = static_cast<std::size_t>(options.warm_up * static_cast<double>(trace.visits.size()));
  if (setting.warm_up == trace.visits.size()) fail(ErrorCode::kUsage, "the trace is too short to measure");

  StreamBenchResult result;
  result.backend = options.multiply ? ops->name() : "";
  result.routing = measure_trace(trace);
  result.synthetic = options.trace.empty();
  result.layers = trace.layers;
  result.experts = trace.experts;
  result.expert_bytes = files->largest_run();
  result.tokens = trace.tokens();
  DriveLimit limit(*files, options.limit_seconds);
  if (options.multiply) {
    announce("multiplying with experts in memory");
    result.expert_seconds = measure_expert_seconds(setting);
  }
  announce("the drive");
  limit.measure();
  for (const std::size_t slots : options.slots) {
    announce(fmt::format("{} experts in memory", slots));
    StreamRow row;
    row.slots = slots;
    measure(setting, cancel, row, result.io);
    limit.measure();
    if (options.multiply) {
      const double after = measure_expert_seconds(setting);
      setting.expert_seconds = (result.expert_seconds + after) / 2;
      result.expert_seconds = after;
    }
    const DriveModel drive = limit.model();
    row.limit_bytes_per_second = drive.bytes_per_second.back();
    predict(setting, drive, limit.record_bytes(), row);
    result.rows.push_back(row);
  }
  return result;
}

}  // namespace perigee
