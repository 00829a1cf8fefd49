#include "proof/patched_checkpoint.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <fstream>
#include <span>
#include <system_error>

#include "base/error.h"
#include "checkpoint/safetensors.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;

bool belongs_to_model(const fs::path& file) {
  const std::string name = file.filename();
  return name == "config.json" || (name.starts_with("model") && (name.ends_with(".safetensors") ||
                                                                 name.ends_with(".safetensors.index.json")));
}

fs::path make_temporary_folder() {
  std::string name = fs::temp_directory_path() / "perigee-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) fail_errno(errno, fmt::format("cannot make the folder {}", name));
  return name;
}

void overwrite(const fs::path& path, std::uint64_t position, std::span<const std::byte> bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(position));
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) fail(ErrorCode::kIo, "cannot write {}", path.string());
}

}  // namespace

PatchedCheckpoint::PatchedCheckpoint(const fs::path& checkpoint,
                                     const std::map<std::string, std::vector<float>>& values)
    : folder_(make_temporary_folder()) {
  try {
    copy_files(checkpoint);
    patch(values);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
    throw;
  }
}

PatchedCheckpoint::~PatchedCheckpoint() {
  std::error_code ignored;  // a folder in the way is no reason to fail what was proved
  fs::remove_all(folder_, ignored);
}

void PatchedCheckpoint::copy_files(const fs::path& checkpoint) const {
  std::uint64_t bytes = 0;
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(checkpoint)) {
    if (!entry.is_regular_file() || !belongs_to_model(entry.path())) continue;
    files.push_back(entry.path());
    bytes += entry.file_size();
  }
  if (bytes > kMostBytes) {
    fail(ErrorCode::kUnsupported, "{} is too large to be copied for a proof with other values",
         checkpoint.string());
  }
  for (const fs::path& file : files) {
    fs::copy_file(file, folder_ / file.filename());
    fs::permissions(folder_ / file.filename(), fs::perms::owner_write, fs::perm_options::add);
  }
}

void PatchedCheckpoint::patch(const std::map<std::string, std::vector<float>>& values) const {
  std::size_t found = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
    if (entry.path().extension() != ".safetensors") continue;
    const SafetensorsFile shard = SafetensorsFile::open(entry.path());
    for (const auto& [name, floats] : values) {
      const TensorInfo* tensor = shard.header.find(name);
      if (tensor == nullptr) continue;
      if (tensor->dtype != DType::kF32 || tensor->elements() != floats.size()) {
        fail(ErrorCode::kCorrupt, "{}: {} cannot be replaced by {} float32 values",
             entry.path().filename().string(), name, floats.size());
      }
      overwrite(entry.path(), shard.position(*tensor), std::as_bytes(std::span(floats)));
      ++found;
    }
  }
  if (found != values.size()) {
    fail(ErrorCode::kNotFound, "the checkpoint lacks {} of {} tensors that should have other values",
         values.size() - found, values.size());
  }
}

}  // namespace perigee
