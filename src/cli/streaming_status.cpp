#include "cli/streaming_status.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/progress.h"
#include "experts/streamed_experts.h"

namespace perigee {
namespace {

std::string rate_text(const StreamingStatistics& s) {
  return fmt::format("{:.2f} GB/s", s.disk_bytes_per_second() / 1e9);
}

int percent_of(std::uint64_t part, std::uint64_t whole) {
  return whole > 0 ? static_cast<int>(100 * part / whole) : 0;
}

}  // namespace

StreamingStatus::StreamingStatus(const LoadedModel& weights) : experts_(weights.streamed()) {
  if (experts_ != nullptr && ::isatty(STDERR_FILENO) != 0) thread_ = std::thread([this] { redraw(); });
}

void StreamingStatus::stop() {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void StreamingStatus::redraw() {
  constexpr auto kPause = std::chrono::milliseconds(500);
  bool drawn = false;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kPause, [this] { return stopping_; })) {
    const StreamingStatistics s = experts_->statistics();
    std::fputs(fmt::format("\r\x1b[Kexperts: {} read at {}, {} reads under way, {:.0f}% from memory",
                           format_bytes(s.bytes_demand + s.bytes_prefetch), rate_text(s), s.reading,
                           100 * s.hit_rate())
                   .c_str(),
               stderr);
    drawn = true;
  }
  if (drawn) std::fputs("\r\x1b[K", stderr);
}

std::string streaming_summary(const LoadedModel& weights) {
  if (weights.streamed() == nullptr) return {};
  const StreamingStatistics s = weights.streamed()->statistics();
  return fmt::format(
      "experts: {:.0f}% from memory (popular {}%, others {}%, foreseen {}%), {} read at {}, {} waited",
      100 * s.hit_rate(), percent_of(s.hits_pinned, s.asked), percent_of(s.hits_pool, s.asked),
      percent_of(s.hits_prefetch, s.asked), format_bytes(s.bytes_demand + s.bytes_prefetch), rate_text(s),
      format_duration(s.wait_seconds));
}

std::string decoding_summary(const Generation& generation, std::optional<double> disk_bytes_per_second) {
  if (!generation.streamed || generation.generated() < 2) return {};
  const StreamingStatistics& s = *generation.streamed;
  const std::uint64_t tokens = generation.generated() - 1;
  const std::string rate = disk_bytes_per_second
                               ? fmt::format("{:.2f} of {:.2f} GB/s", s.disk_bytes_per_second() / 1e9,
                                             *disk_bytes_per_second / 1e9)
                               : rate_text(s);
  return fmt::format(
      "{:.1f} tokens/s; a token: {} of experts, {:.0f}% from memory, {} read and {} read ahead, at {}",
      generation.tokens_per_second(), format_bytes(s.bytes_used / tokens), 100 * s.hit_rate(),
      format_bytes(s.bytes_demand / tokens), format_bytes(s.bytes_prefetch / tokens), rate);
}

nlohmann::ordered_json experts_json(const LoadedModel& weights) {
  using Json = nlohmann::ordered_json;
  const MemoryPlan& plan = weights.memory_plan();
  Json json = {{"home", plan.resident ? "resident" : "streamed"},
               {"memory",
                {{"trunk_bytes", plan.trunk},
                 {"state_bytes", plan.states},
                 {"activation_bytes", plan.activations},
                 {"expert_bytes", plan.experts},
                 {"slots", plan.slots},
                 {"prompt_chunk", plan.prompt_chunk}}}};
  if (weights.streamed() == nullptr) return json;
  const StreamingStatistics s = weights.streamed()->statistics();
  json["asked"] = s.asked;
  json["hits"] = {{"pinned", s.hits_pinned}, {"pool", s.hits_pool}, {"prefetch", s.hits_prefetch}};
  json["joined"] = s.joined;
  json["misses"] = s.misses;
  json["prefetch_recall"] = s.recall();
  json["bytes"] = {
      {"used", s.bytes_used}, {"read_demand", s.bytes_demand}, {"read_prefetch", s.bytes_prefetch}};
  json["reads"] = {
      {"finished", s.reads}, {"retries", s.retries}, {"failures", s.failures}, {"checked", s.checked}};
  json["wait_seconds"] = s.wait_seconds;
  json["disk_seconds"] = s.disk_seconds;
  json["disk_bytes_per_second"] = s.disk_bytes_per_second();
  json["io"] = weights.streamed()->io_name();
  return json;
}

}  // namespace perigee
