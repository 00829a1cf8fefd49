#include "bench/convert_bench.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/file.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

void drop_caches_of(const fs::path& folder) {
  for (const fs::path& file : files_of(folder)) File::open_read(file).drop_cache();
}

// Time until the whole file system has everything on disk.
double sync_seconds(const fs::path& folder) {
  const auto begin = std::chrono::steady_clock::now();
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail_errno(errno, fmt::format("cannot open folder {}", folder.string()));
  ::syncfs(fd);
  ::close(fd);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

ChildCost sum(ChildCost a, const ChildCost& b) {
  a.wall_seconds += b.wall_seconds;
  a.cpu_seconds += b.cpu_seconds;
  a.peak_rss_bytes = std::max(a.peak_rss_bytes, b.peak_rss_bytes);
  return a;
}

class Bench {
 public:
  explicit Bench(const ConvertBenchOptions& options)
      : options_(options), output_(options.work / "perigee-bench-output") {
    if (fs::exists(output_)) {
      fail(ErrorCode::kExists, "{} is in the way, remove it first", output_.string());
    }
  }
  ~Bench() {
    std::error_code ignored;
    fs::remove_all(output_, ignored);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  ConvertBenchResult run() {
    ConvertBenchResult result;
    for (const fs::path& file : files_of(options_.source)) result.source_bytes += fs::file_size(file);
    result.copy.name = "cp";
    result.convert.name = "convert --verify none";
    result.copy_compare.name = "cp, then cmp";
    result.convert_verify.name = "convert --verify full";
    for (unsigned round = 0; round < options_.rounds; ++round) {
      step(result.copy, [this] { return copy(); });
      step(result.convert, [this] { return convert("none"); });
      step(result.copy_compare, [this] {
        const ChildCost copied = copy();  // before comparing: arguments have no order of evaluation
        return sum(copied, compare());
      });
      step(result.convert_verify, [this] { return convert("full"); });
    }
    return result;
  }

 private:
  void step(MeasuredStep& step, const std::function<ChildCost()>& run) {
    if (options_.announce) options_.announce(step.name);
    sync_seconds(options_.work);
    drop_caches_of(options_.source);
    step.runs.push_back(run());
    fs::remove_all(output_);
  }

  ChildCost copy() const {
    ChildCost cost = run_child({"cp", "-r", options_.source.string(), output_.string()});
    cost.wall_seconds += sync_seconds(options_.work);
    return cost;
  }

  ChildCost compare() const {
    drop_caches_of(options_.source);
    drop_caches_of(output_);
    ChildCost cost;
    for (const fs::path& file : files_of(options_.source)) {
      const fs::path other = output_ / fs::relative(file, options_.source);
      cost = sum(cost, run_child({"cmp", file.string(), other.string()}));
    }
    return cost;
  }

  ChildCost convert(const std::string& verify) const {
    std::vector<std::string> command = {options_.program.string(), "convert",  options_.source.string(),
                                        output_.string(),          "--verify", verify};
    command.insert(command.end(), options_.convert_options.begin(), options_.convert_options.end());
    constexpr int kLossyByPolicy = 3;
    return run_child(command, kLossyByPolicy);
  }

  const ConvertBenchOptions& options_;
  const fs::path output_;
};

}  // namespace

double MeasuredStep::median_seconds() const {
  std::vector<double> seconds;
  for (const ChildCost& run : runs) seconds.push_back(run.wall_seconds);
  std::ranges::sort(seconds);
  return seconds.empty() ? 0 : seconds[seconds.size() / 2];
}

ConvertBenchResult bench_conversion(const ConvertBenchOptions& options) {
  return Bench(options).run();
}

}  // namespace perigee
