#include "convert/sidecars.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/file.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxDepth = 3;             // folders below the checkpoint, e.g. figures/
constexpr std::size_t kMaxFiles = 1000;  // more is not a checkpoint's company
constexpr std::string_view kReadme = "README.md";
constexpr std::string_view kSourceReadme = "SOURCE_README.md";

std::string lower(std::string text) {
  for (char& byte : text) {
    if (byte >= 'A' && byte <= 'Z') byte = static_cast<char>(byte + 32);
  }
  return text;
}

bool is_weights_or_scrap(const std::string& name) {
  static constexpr std::array<std::string_view, 16> kEndings = {
      ".safetensors", ".index.json", ".bin",     ".pt",  ".pth",  ".gguf",   ".h5",     ".onnx",
      ".incomplete",  ".part",       ".partial", ".tmp", ".lock", ".sha256", ".sha512", ".md5"};
  const std::string plain = lower(name);
  return std::any_of(kEndings.begin(), kEndings.end(),
                     [&](std::string_view ending) { return plain.ends_with(ending); });
}

// Files of the top folder that a conversion writes anew, or that describe bytes which no longer exist.
bool is_rewritten(const std::string& name) {
  static constexpr std::array<std::string_view, 8> kNames = {"config.json",
                                                             "hf_quant_config.json",
                                                             "conversion_report.json",
                                                             "conversion_modules.jsonl",
                                                             "SHA256SUMS",
                                                             "SHA512SUMS",
                                                             "MD5SUMS",
                                                             "CHECKSUMS"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

bool has_control_bytes(const std::string& name) {
  return std::any_of(name.begin(), name.end(),
                     [](unsigned char byte) { return byte < 0x20 || byte == 0x7f; });
}

class Lister {
 public:
  explicit Lister(const fs::path& source) : source_(source) {}

  SidecarList list() {
    visit("", 0);
    rename_readme();
    std::sort(list_.files.begin(), list_.files.end(),
              [](const SidecarFile& a, const SidecarFile& b) { return a.output_name < b.output_name; });
    std::sort(list_.skipped.begin(), list_.skipped.end());
    return std::move(list_);
  }

 private:
  // `folder` is "" or ends in "/".
  void visit(const std::string& folder, int depth) {
    std::error_code error;
    fs::directory_iterator entries(source_ / folder, error);
    if (error) fail_errno(error.value(), "listing " + (source_ / folder).string());
    for (const fs::directory_iterator end; entries != end; entries.increment(error)) {
      add(folder, entries->path().filename().string(), depth);
      if (error) break;
    }
    if (error) fail_errno(error.value(), "listing " + (source_ / folder).string());
  }

  void add(const std::string& folder, const std::string& name, int depth) {
    if (name.starts_with('.') || is_weights_or_scrap(name) || (depth == 0 && is_rewritten(name))) return;
    const std::string relative = folder + name;
    if (has_control_bytes(name)) return skip(folder + "?", "its name holds control characters");
    const fs::path path = source_ / relative;
    std::error_code error;
    const fs::file_status own = fs::symlink_status(path, error);
    if (fs::is_directory(own)) {
      if (depth >= kMaxDepth) return skip(relative, "it lies too deep");
      return visit(relative + "/", depth + 1);
    }
    const fs::file_status target = fs::status(path, error);
    if (target.type() == fs::file_type::not_found) {
      fail(ErrorCode::kNotFound,
           "{} is a link to a file that is not there; finish the download, or remove it", path.string());
    }
    if (!fs::is_regular_file(target)) return skip(relative, "it is not a plain file");
    add_file(relative, File::open_read(path).size());
  }

  void add_file(const std::string& relative, std::uint64_t bytes) {
    if (bytes > kMaxSidecarBytes) return skip(relative, "it is larger than 64 MiB");
    if (list_.files.size() >= kMaxFiles) return skip(relative, "there are more than 1000 files");
    list_.files.push_back({relative, relative, bytes});
  }

  void skip(const std::string& relative, const char* why) {
    if (list_.skipped.size() < kMaxFiles) list_.skipped.push_back(relative + ": not copied, " + why);
  }

  // README.md becomes the new model card. A source that was itself converted already carries the original's
  // text as SOURCE_README.md; that one is kept, and the card of the earlier conversion dropped.
  void rename_readme() {
    const auto named = [this](std::string_view name) {
      return std::find_if(list_.files.begin(), list_.files.end(), [&](const SidecarFile& file) {
        return lower(file.source_name) == lower(std::string(name));
      });
    };
    const auto readme = named(kReadme);
    if (readme == list_.files.end()) return;
    if (named(kSourceReadme) != list_.files.end()) {
      list_.files.erase(readme);
    } else {
      readme->output_name = kSourceReadme;
    }
  }

  const fs::path source_;
  SidecarList list_;
};

// Creates the folders above output/name; refuses any that is a link.
void make_folders(const fs::path& output, const fs::path& name) {
  fs::path folder = output;
  for (const fs::path& part : name.parent_path()) {
    folder /= part;
    std::error_code error;
    fs::create_directory(folder, error);
    if (!fs::is_directory(fs::symlink_status(folder))) {
      fail(ErrorCode::kExists, "{} must be a folder of its own to take a copied file; remove what is there",
           folder.string());
    }
  }
}

bool is_safe_name(const std::string& name) {
  const fs::path path(name);
  return !name.empty() && path.is_relative() &&
         std::none_of(path.begin(), path.end(),
                      [](const fs::path& part) { return part == ".." || part == "."; });
}

}  // namespace

SidecarList list_sidecars(const fs::path& source) {
  return Lister(source).list();
}

void copy_sidecars(const fs::path& source, const fs::path& output, const SidecarList& sidecars) {
  for (const SidecarFile& file : sidecars.files) {
    if (!is_safe_name(file.source_name) || !is_safe_name(file.output_name)) {
      fail(ErrorCode::kInternal, "\"{}\" is not a name inside a checkpoint folder", file.output_name);
    }
    make_folders(output, file.output_name);
    const fs::path target = output / file.output_name;
    // A stale temporary file could be a link; creating through it would write elsewhere.
    const fs::path temporary = target.string() + ".partial";
    std::error_code error;
    fs::remove(temporary, error);
    write_file_atomically(target, read_small_file(source / file.source_name, kMaxSidecarBytes), temporary);
  }
}

}  // namespace perigee
