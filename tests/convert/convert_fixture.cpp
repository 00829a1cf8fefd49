#include "convert_fixture.h"

#include "base/file.h"

namespace perigee::test {

ConvertOptions convert_options(const std::filesystem::path& source, const std::filesystem::path& output) {
  ConvertOptions options;
  options.source = source;
  options.output = output;
  options.progress = ProgressStyle::kOff;
  options.jobs = 2;
  return options;
}

std::map<std::string, std::string> folder_contents(const std::filesystem::path& folder) {
  std::map<std::string, std::string> contents;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    contents[std::filesystem::relative(entry.path(), folder).string()] =
        read_small_file(entry.path(), 1ULL << 30);
  }
  return contents;
}

std::vector<std::byte> without_negative_zeros(std::vector<std::byte> nibbles) {
  for (std::byte& pair : nibbles) {
    auto low = pair & std::byte{0x0F};
    auto high = pair & std::byte{0xF0};
    if (low == std::byte{0x08}) low = std::byte{0};
    if (high == std::byte{0x80}) high = std::byte{0};
    pair = low | high;
  }
  return nibbles;
}

}  // namespace perigee::test
