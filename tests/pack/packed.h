// What the tests of pack share: folders compared file by file, and a store of the small model. For tests
// only.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "base/file.h"
#include "pack/pack.h"
#include "support/mini_model.h"

namespace perigee::test {

inline PackOptions quiet_pack(const std::filesystem::path& source, const std::filesystem::path& store) {
  PackOptions options;
  options.source = source;
  options.store = store;
  options.work.jobs = 1;
  options.work.progress = ProgressStyle::kOff;
  return options;
}

inline WorkOptions quiet_work() {
  WorkOptions work;
  work.jobs = 1;
  work.progress = ProgressStyle::kOff;
  return work;
}

// Every file below a folder with its bytes.
inline std::map<std::string, std::string> tree(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file())
      files[entry.path().lexically_relative(folder)] = read_small_file(entry.path(), 1 << 26);
  }
  return files;
}

// Turns one bit of the file round.
inline void damage(const std::filesystem::path& path, std::uint64_t at) {
  std::string bytes = read_small_file(path, 1 << 26);
  bytes.at(at) = static_cast<char>(bytes[at] ^ 4);
  write_file_atomically(path, bytes);
}

// All of what follows is made once for the test program.

// Three layers, the first dense, of the small model.
inline const std::filesystem::path& small_model() {
  static const TempDir folder;
  static const std::filesystem::path model = [] {
    SynthOptions options = mini_model_options();
    options.sizes.layers = 3;
    make_checkpoint(folder / "small", options);
    return folder / "small";
  }();
  return model;
}

inline const std::filesystem::path& converted_model(Layout layout) {
  static const TempDir folder;
  static std::map<Layout, std::filesystem::path> made;
  std::filesystem::path& path = made[layout];
  if (path.empty()) {
    path = folder / layout_name(layout);
    make_nvfp4(small_model(), path, layout);
  }
  return path;
}

// Its store, nothing rounded.
inline const std::filesystem::path& store_of(const std::filesystem::path& checkpoint) {
  static const TempDir folder;
  static std::map<std::filesystem::path, std::filesystem::path> made;
  std::filesystem::path& path = made[checkpoint];
  if (path.empty()) {
    path = folder / checkpoint.filename().string();
    pack_checkpoint(quiet_pack(checkpoint, path));
  }
  return path;
}

struct RoundedStore {
  TempDir folder;
  std::filesystem::path path;
  StoreReport report;
};

// Of small_model(): attention and shared experts in FP8, the head in NVFP4, the latent projections as they
// are.
inline const RoundedStore& rounded_store() {
  static RoundedStore store;
  if (store.path.empty()) {
    store.path = store.folder / "rounded";
    PackOptions options = quiet_pack(small_model(), store.path);
    options.planes[static_cast<std::size_t>(Plane::kAttention)] = PlaneFormat::kFp8;
    options.planes[static_cast<std::size_t>(Plane::kShared)] = PlaneFormat::kFp8;
    options.planes[static_cast<std::size_t>(Plane::kHead)] = PlaneFormat::kNvfp4;
    store.report = pack_checkpoint(options).report;
  }
  return store;
}

// A copy of small_model() with a store that links to it.
struct LinkedStore {
  TempDir folder;
  std::filesystem::path source, path;
  StoreReport report;
};

inline const LinkedStore& linked_store() {
  static LinkedStore store;
  if (store.path.empty()) {
    store.source = store.folder / "source";
    store.path = store.folder / "store";
    std::filesystem::copy(small_model(), store.source, std::filesystem::copy_options::recursive);
    PackOptions options = quiet_pack(store.source, store.path);
    options.link = true;
    store.report = pack_checkpoint(options).report;
  }
  return store;
}

}  // namespace perigee::test
