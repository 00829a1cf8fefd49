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

std::vector<std::byte> with_zeros_where_negative(std::vector<std::byte> nibbles,
                                                 const std::vector<std::byte>& source) {
  for (std::size_t i = 0; i < nibbles.size(); ++i) {
    if ((source[i] & std::byte{0x0F}) == std::byte{0x08}) nibbles[i] &= std::byte{0xF0};
    if ((source[i] & std::byte{0xF0}) == std::byte{0x80}) nibbles[i] &= std::byte{0x0F};
  }
  return nibbles;
}

}  // namespace perigee::test
