#include "experts/trace.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/error.h"
#include "base/file.h"

namespace perigee {
namespace {

constexpr std::string_view kTitle = "perigee routing trace 2";
constexpr std::string_view kFirstTitle = "perigee routing trace 1";  // nothing foreseen
constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 30;
constexpr std::uint64_t kMostLayers = 1 << 16;
constexpr std::uint64_t kMostExperts = 1 << 16;
constexpr std::uint64_t kMostTokens = 1 << 30;

class Lines {
 public:
  Lines(std::string_view text, const std::string& origin) : text_(text), origin_(origin) {}

  bool next() {
    if (text_.empty()) return false;
    const std::size_t end = std::min(text_.find('\n'), text_.size());
    line_ = text_.substr(0, end);
    text_.remove_prefix(std::min(end + 1, text_.size()));
    ++number_;
    return true;
  }
  std::string_view line() const { return line_; }
  bool at_end() const { return line_.empty(); }
  bool skip(std::string_view mark) {
    if (!line_.starts_with(mark)) return false;
    line_.remove_prefix(mark.size());
    return true;
  }

  std::uint64_t number(std::uint64_t most) {
    while (line_.starts_with(' ')) line_.remove_prefix(1);
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(line_.data(), line_.data() + line_.size(), value);
    if (error != std::errc() || value > most) bad(fmt::format("a number up to {} is expected", most));
    line_.remove_prefix(static_cast<std::size_t>(end - line_.data()));
    return value;
  }
  [[noreturn]] void bad(const std::string& what) const {
    fail(ErrorCode::kCorrupt, "{}, line {}: {}", origin_, number_, what);
  }

 private:
  std::string_view text_, line_;
  const std::string& origin_;
  std::size_t number_ = 0;
};

TraceVisit read_visit(Lines& lines, const Trace& trace) {
  TraceVisit visit;
  visit.layer = static_cast<std::uint32_t>(lines.number(trace.layers - 1));
  visit.tokens = static_cast<std::uint32_t>(lines.number(kMostTokens));
  bool foreseen = false;
  while (!lines.at_end() && !(foreseen = lines.skip(" |"))) {
    const auto expert = static_cast<std::uint32_t>(lines.number(trace.experts - 1));
    if (!visit.experts.empty() && expert <= visit.experts.back()) lines.bad("experts are not ascending");
    visit.experts.push_back(expert);
  }
  if (foreseen && lines.at_end()) lines.bad("experts are expected behind |");
  while (!lines.at_end()) {
    const auto expert = static_cast<std::uint32_t>(lines.number(trace.experts - 1));
    if (std::ranges::find(visit.foreseen, expert) != visit.foreseen.end())
      lines.bad("an expert is foreseen twice");
    visit.foreseen.push_back(expert);
  }
  return visit;
}

}  // namespace

std::uint64_t Trace::tokens() const {
  std::uint64_t tokens = 0;
  for (const TraceVisit& visit : visits) {
    if (visit.layer == visits.front().layer) tokens += visit.tokens;
  }
  return tokens;
}

Trace parse_trace(std::string_view text, const std::string& origin) {
  Lines lines(text, origin);
  if (!lines.next() || (lines.line() != kTitle && lines.line() != kFirstTitle)) {
    fail(ErrorCode::kCorrupt, "{} is not a trace of routing: it does not begin with \"{}\"", origin, kTitle);
  }
  if (!lines.next()) lines.bad("layers, experts and bytes are expected");
  Trace trace;
  trace.layers = lines.number(kMostLayers);
  trace.experts = lines.number(kMostExperts);
  trace.expert_bytes = lines.number(UINT64_MAX);
  if (trace.layers == 0 || trace.experts == 0) lines.bad("there are no layers or no experts");
  while (lines.next()) trace.visits.push_back(read_visit(lines, trace));
  return trace;
}

Trace load_trace(const std::filesystem::path& path) {
  return parse_trace(read_small_file(path, kMostBytes), path.string());
}

TraceWriter::TraceWriter(const std::filesystem::path& path, std::uint64_t layers, std::uint64_t experts,
                         std::uint64_t expert_bytes)
    : path_(path), out_(path), foreseen_(layers) {
  if (!out_) fail(ErrorCode::kIo, "cannot write the trace {}", path.string());
  out_ << kTitle << '\n' << layers << ' ' << experts << ' ' << expert_bytes << '\n';
}

void TraceWriter::visit(std::uint32_t layer, std::span<const RoutedToken> routed) {
  std::vector<std::uint32_t> experts;
  for (const RoutedToken& token : routed)
    experts.insert(experts.end(), token.experts.begin(), token.experts.end());
  std::ranges::sort(experts);
  experts.erase(std::unique(experts.begin(), experts.end()), experts.end());
  out_ << layer << ' ' << routed.size();
  for (const std::uint32_t expert : experts) out_ << ' ' << expert;
  std::string_view mark = " |";
  for (const std::uint32_t expert : std::exchange(foreseen_[layer], {})) {
    out_ << std::exchange(mark, "") << ' ' << expert;
  }
  out_ << '\n';
}

void TraceWriter::foresee(std::uint32_t layer, std::span<const std::uint32_t> experts) {
  foreseen_[layer].assign(experts.begin(), experts.end());
}

void TraceWriter::finish() {
  out_.close();
  if (!out_) fail(ErrorCode::kIo, "the trace {} could not be written to its end", path_.string());
}

}  // namespace perigee
