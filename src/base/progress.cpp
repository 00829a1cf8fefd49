#include "base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cmath>

namespace perigee {
namespace {

constexpr auto kRedrawInterval = std::chrono::milliseconds(200);

ProgressStyle resolve(ProgressStyle style, std::FILE* stream) {
  if (style != ProgressStyle::kAuto) return style;
  return ::isatty(::fileno(stream)) == 1 ? ProgressStyle::kTerminal : ProgressStyle::kOff;
}

std::string json_escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '"' || c == '\\') escaped += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) escaped += c;
  }
  return escaped;
}

}  // namespace

std::string format_bytes(std::uint64_t bytes) {
  constexpr std::array<const char*, 7> kUnits = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes);
  return fmt::format("{:.{}f} {}", value, value < 9.995 ? 2 : (value < 99.95 ? 1 : 0), kUnits[unit]);
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::uint64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{}m {:02}s", whole / 60, whole % 60);
  return fmt::format("{}h {:02}m", whole / 3600, whole % 3600 / 60);
}

Progress::Progress(std::string label, std::uint64_t total_bytes, ProgressStyle style, std::FILE* stream)
    : label_(std::move(label)),
      total_(total_bytes),
      style_(resolve(style, stream)),
      stream_(stream),
      start_(std::chrono::steady_clock::now()),
      last_print_(start_) {}

Progress::~Progress() {
  const std::scoped_lock lock(mutex_);
  if (!finished_ && style_ == ProgressStyle::kTerminal) std::fputc('\n', stream_);
}

double Progress::seconds_since_start() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void Progress::add(std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  done_ += bytes;
  print(false);
}

void Progress::add_skipped(std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  skipped_ += bytes;
  print(false);
}

void Progress::set_detail(std::string detail) {
  const std::scoped_lock lock(mutex_);
  detail_ = std::move(detail);
  print(false);
}

void Progress::finish() {
  const std::scoped_lock lock(mutex_);
  if (finished_) return;
  print(true);
  finished_ = true;
}

void Progress::print(bool last) {
  if (style_ == ProgressStyle::kOff) return;
  const auto now = std::chrono::steady_clock::now();
  if (!last && now - last_print_ < kRedrawInterval) return;
  last_print_ = now;
  const double seconds = seconds_since_start();
  const double rate = seconds > 0 ? static_cast<double>(done_) / seconds : 0;
  const std::uint64_t covered = done_ + skipped_;
  const std::uint64_t left = total_ > covered ? total_ - covered : 0;
  const double eta = rate > 0 ? static_cast<double>(left) / rate : INFINITY;
  std::string text;
  if (style_ == ProgressStyle::kJson) {
    text = fmt::format(
        "{{\"event\":\"progress\",\"label\":\"{}\",\"done\":{},\"total\":{},\"bytes_per_second\":{:.0f},"
        "\"eta_seconds\":{},\"detail\":\"{}\"}}\n",
        json_escaped(label_), covered, total_, rate, std::isfinite(eta) ? fmt::format("{:.1f}", eta) : "null",
        json_escaped(detail_));
  } else {
    const double percent =
        total_ > 0 ? 100.0 * static_cast<double>(covered) / static_cast<double>(total_) : 100.0;
    text = fmt::format(
        "\r\033[K{} {:5.1f} %  {} / {}  {}/s  {}  {}{}", label_, percent, format_bytes(covered),
        format_bytes(total_), format_bytes(static_cast<std::uint64_t>(rate)),
        last ? fmt::format("in {}", format_duration(seconds)) : fmt::format("{} left", format_duration(eta)),
        detail_, last ? "\n" : "");
  }
  // Not fmt::print, which throws when nobody reads any more: that is no reason to stop the work.
  std::fputs(text.c_str(), stream_);
  std::fflush(stream_);
}

}  // namespace perigee
