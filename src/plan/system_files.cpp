#include "plan/system_files.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <system_error>

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostLines = 100'000;

bool lies_in(const fs::path& path, const fs::path& folder) {
  const auto difference = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return difference.first == folder.end() || difference.first->empty();
}

// "/mnt/my\040disk": the kernel writes blanks and their like as octal numbers.
std::string unescaped(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned code = 0;
    if (text[i] == '\\' && i + 3 < text.size() &&
        std::from_chars(&text[i + 1], &text[i + 4], code, 8).ptr == &text[i + 4]) {
      plain += static_cast<char>(code);
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// "27 1 254:0 / /mnt rw,relatime shared:1 - ext4 /dev/vda rw"
std::optional<Mount> parse_mount(const std::string& line) {
  std::istringstream words(line);
  std::string id, parent, root, point, word;
  Mount mount;
  if (!(words >> id >> parent >> mount.device >> root >> point)) return std::nullopt;
  while (words >> word && word != "-") continue;
  if (!(words >> mount.type >> mount.source)) return std::nullopt;
  mount.point = unescaped(point);
  return mount;
}

}  // namespace

fs::path SystemFiles::at(const std::string& path) const {
  return root_ / fs::path(path).relative_path();
}

bool SystemFiles::has(const std::string& path) const {
  std::error_code ignored;
  return fs::exists(at(path), ignored);
}

std::vector<std::string> SystemFiles::lines(const std::string& path) const {
  std::vector<std::string> lines;
  std::ifstream file(at(path));
  for (std::string line; lines.size() < kMostLines && std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::optional<std::string> SystemFiles::line(const std::string& path) const {
  const std::vector<std::string> all = lines(path);
  return all.empty() ? std::nullopt : std::optional(all.front());
}

std::optional<std::uint64_t> SystemFiles::number(const std::string& path) const {
  const std::optional<std::string> text = line(path);
  std::uint64_t number = 0;
  if (!text || std::from_chars(text->data(), text->data() + text->size(), number).ec != std::errc{})
    return std::nullopt;
  return number;
}

std::vector<std::string> SystemFiles::names_in(const std::string& folder) const {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(at(folder), error), end; !error && entry != end; entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

std::optional<std::uint64_t> SystemFiles::memory(const std::string& name) const {
  for (const std::string& line : lines("/proc/meminfo")) {
    if (!line.starts_with(name + ":")) continue;
    std::istringstream words(line.substr(name.size() + 1));
    std::uint64_t kilobytes = 0;
    if (words >> kilobytes) return kilobytes * 1024;
  }
  return std::nullopt;
}

std::optional<Mount> SystemFiles::mount_of(const fs::path& path) const {
  std::optional<Mount> best;
  for (const std::string& line : lines("/proc/self/mountinfo")) {
    std::optional<Mount> mount = parse_mount(line);
    if (!mount || !lies_in(path, mount->point)) continue;
    const bool is_closer = !best || mount->point.string().size() >= best->point.string().size();
    if (is_closer) best = std::move(mount);  // of two at one point the later one hides the other
  }
  return best;
}

}  // namespace perigee
