#include "convert/selection.h"

#include <charconv>
#include <set>

#include "base/error.h"
#include "checkpoint/tensor_name.h"

namespace perigee {
namespace {

constexpr std::uint64_t kLargestNumber = 100'000;  // a list is expanded, so it must stay small

std::uint64_t parse_number(std::string_view text, std::string_view whole, std::string_view option) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size() || value > kLargestNumber) {
    fail(ErrorCode::kUsage, "{} {}: expected numbers and ranges such as 3 or 1-4,7", option, whole);
  }
  return value;
}

std::set<std::string> files_of_layers(const CheckpointIndex& index,
                                      const std::vector<std::uint64_t>& layers) {
  std::set<std::uint64_t> missing(layers.begin(), layers.end());
  const std::set<std::uint64_t> wanted = missing;
  std::set<std::string> files;
  for (const IndexEntry& entry : index.entries) {
    const std::int32_t layer = parse_tensor_name(entry.name).layer;
    if (layer < 0 || !wanted.contains(static_cast<std::uint64_t>(layer))) continue;
    files.insert(index.shards[entry.shard]);
    missing.erase(static_cast<std::uint64_t>(layer));
  }
  if (!missing.empty())
    fail(ErrorCode::kUsage, "--layers {}: the checkpoint has no such layer", *missing.begin());
  return files;
}

}  // namespace

std::vector<std::uint64_t> parse_number_list(std::string_view text, std::string_view option) {
  std::set<std::uint64_t> numbers;
  std::string_view rest = text;
  while (true) {
    const std::string_view item = rest.substr(0, rest.find(','));
    const std::size_t dash = item.find('-');
    const std::uint64_t first = parse_number(item.substr(0, dash), text, option);
    const std::uint64_t last =
        dash == std::string_view::npos ? first : parse_number(item.substr(dash + 1), text, option);
    if (last < first) fail(ErrorCode::kUsage, "{} {}: the range {} runs backwards", option, text, item);
    for (std::uint64_t n = first; n <= last; ++n) numbers.insert(n);
    if (item.size() == rest.size()) break;
    rest.remove_prefix(item.size() + 1);
  }
  return {numbers.begin(), numbers.end()};
}

std::vector<std::string> select_shards(const CheckpointIndex& index,
                                       const std::vector<std::uint64_t>& numbers,
                                       const std::vector<std::uint64_t>& layers) {
  std::vector<std::string> selected = index.shards;
  if (!numbers.empty()) {
    selected.clear();
    for (const std::uint64_t number : numbers) {
      if (number == 0 || number > index.shards.size()) {
        fail(ErrorCode::kUsage, "--shards {}: the checkpoint has shards 1 to {}", number,
             index.shards.size());
      }
      selected.push_back(index.shards[number - 1]);
    }
  }
  if (!layers.empty()) {
    const std::set<std::string> files = files_of_layers(index, layers);
    std::erase_if(selected, [&](const std::string& name) { return !files.contains(name); });
    if (selected.empty()) fail(ErrorCode::kUsage, "--shards and --layers together select nothing");
  }
  return selected;
}

std::vector<std::string> shards_of_rank(const std::vector<std::string>& shards, unsigned rank,
                                        unsigned world_size) {
  std::vector<std::string> mine;
  for (std::size_t i = rank; i < shards.size(); i += world_size) mine.push_back(shards[i]);
  return mine;
}

}  // namespace perigee
