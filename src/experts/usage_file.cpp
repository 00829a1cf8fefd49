#include "experts/usage_file.h"

#include <charconv>
#include <cmath>
#include <iterator>

#include "base/error.h"
#include "base/file.h"

namespace perigee {
namespace {

constexpr std::string_view kTitle = "perigee expert usage 1";
constexpr std::uint64_t kMillion = 1'000'000;
constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;

// Reads numbers and single separators, and knows the line it is in.
class Reader {
 public:
  Reader(std::string_view text, const std::string& origin) : text_(text), origin_(origin) {}

  void expect(std::string_view word) {
    if (!text_.starts_with(word)) bad(fmt::format("\"{}\" is expected", word == "\n" ? "end of line" : word));
    text_.remove_prefix(word.size());
    if (word == "\n") ++line_;
  }
  std::uint64_t number(std::uint64_t most) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (error != std::errc() || value > most) bad(fmt::format("a number up to {} is expected", most));
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    return value;
  }
  void expect_end() const {
    if (!text_.empty()) bad("nothing more is expected");
  }
  std::size_t left() const { return text_.size(); }
  [[noreturn]] void bad(const std::string& what) const {
    fail(ErrorCode::kCorrupt, "{}, line {}: {}; delete the file to begin anew", origin_, line_, what);
  }

 private:
  std::string_view text_;
  const std::string& origin_;
  std::size_t line_ = 1;
};

}  // namespace

std::string write_usage(const ExpertUsage& usage) {
  std::string text = fmt::format("{}\n{} layers {} experts\n", kTitle, usage.layers, usage.experts);
  for (std::uint64_t layer = 0; layer < usage.layers; ++layer) {
    for (std::uint64_t expert = 0; expert < usage.experts; ++expert) {
      const double rate = usage.rates[layer * usage.experts + expert];
      fmt::format_to(std::back_inserter(text), "{}{}", expert > 0 ? " " : "",
                     std::lround(rate * static_cast<double>(kMillion)));
    }
    text += '\n';
  }
  return text;
}

ExpertUsage parse_usage(std::string_view text, const std::string& origin) {
  Reader reader(text, origin);
  reader.expect(kTitle);
  reader.expect("\n");
  ExpertUsage usage;
  usage.layers = reader.number(kMillion);
  reader.expect(" layers ");
  usage.experts = reader.number(kMillion);
  reader.expect(" experts");
  reader.expect("\n");
  if (usage.layers * usage.experts > reader.left()) reader.bad("there are fewer numbers than it says");
  usage.rates.reserve(usage.layers * usage.experts);
  for (std::uint64_t layer = 0; layer < usage.layers; ++layer) {
    for (std::uint64_t expert = 0; expert < usage.experts; ++expert) {
      if (expert > 0) reader.expect(" ");
      usage.rates.push_back(
          static_cast<float>(static_cast<double>(reader.number(kMillion)) / static_cast<double>(kMillion)));
    }
    reader.expect("\n");
  }
  reader.expect_end();
  return usage;
}

std::optional<ExpertUsage> load_usage(const std::filesystem::path& path) {
  std::error_code ignored;  // one that cannot be looked at fails below
  if (!std::filesystem::exists(path, ignored) && !ignored) return std::nullopt;
  return parse_usage(read_small_file(path, kMostBytes), path.string());
}

void save_usage(const ExpertUsage& usage, const std::filesystem::path& path) {
  write_file_atomically(path, write_usage(usage));
}

}  // namespace perigee
