// Opens a store: its index, held to config.json and to the files that it names.
#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "checkpoint/config.h"
#include "experts/store_format.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxIndexBytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{16} << 20;

[[noreturn]] void fail_other_config(const fs::path& store, const std::string& what) {
  fail(ErrorCode::kMismatch, "{}: {} is not what config.json asks for; pack the store again", store.string(),
       what);
}

void check_shapes(const RunLayout& layout, const K3Config& config, const fs::path& store) {
  const std::uint64_t latent = config.routed_expert_hidden_size, width = config.moe_intermediate_size;
  for (std::size_t i = 0; i < layout.matrices.size(); ++i) {
    const bool is_down = i == 1;
    const MatrixPlace& matrix = layout.matrices[i];
    if (matrix.rows == (is_down ? latent : width) && matrix.columns == (is_down ? width : latent)) continue;
    fail_other_config(store, fmt::format("w{} of [{}, {}]", i + 1, matrix.rows, matrix.columns));
  }
}

void check_config(const StoreIndex& index, const fs::path& store) {
  const std::string text = read_small_file(store / "config.json", kMaxConfigBytes);
  if (xxh3_64(std::as_bytes(std::span(text))) != index.config_checksum) {
    fail(ErrorCode::kMismatch, "{} is not the config.json that {} was packed with; restore it or pack again",
         (store / "config.json").string(), (store / kStoreIndexName).string());
  }
  const K3Config config = parse_config(text, (store / "config.json").string());
  const ExpertTable& table = index.table;
  if (table.experts != config.num_experts || table.has_experts.size() != config.num_hidden_layers) {
    fail_other_config(store, fmt::format("{} layers of {} experts", table.has_experts.size(), table.experts));
  }
  for (std::uint64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    if (table.has_experts[layer] == config.is_moe(layer)) continue;
    fail_other_config(store,
                      fmt::format("layer {} with{} experts", layer, table.has_experts[layer] ? "" : "out"));
  }
  for (const RunLayout& layout : table.layouts) check_shapes(layout, config, store);
}

// A folder that moved together with the store is found by the relative path, a store that moved alone by the
// absolute one.
fs::path find_file(const fs::path& store, const StoreFile& file) {
  const fs::path relative = store / file.path;
  const fs::path absolute = file.fallback;
  std::error_code error;
  const fs::path& path = absolute.empty() || fs::exists(relative, error) ? relative : absolute;
  const std::uint64_t bytes = File::open_read(path).size();
  if (bytes != file.bytes) {
    fail(ErrorCode::kMismatch, "{} has {} bytes, but the store's index says {}; restore it or pack again",
         path.string(), bytes, file.bytes);
  }
  return path;
}

}  // namespace

OpenedStore open_store(const fs::path& store) {
  const fs::path path = store / kStoreIndexName;
  const std::string text = read_small_file(path, kMaxIndexBytes);
  OpenedStore opened;
  opened.index = parse_store_index(std::as_bytes(std::span(text)), path.string());
  check_config(opened.index, store);
  for (const StoreFile& file : opened.index.files) opened.files.push_back(find_file(store, file));
  return opened;
}

std::unique_ptr<ExpertFiles> open_store_experts(const fs::path& store) {
  OpenedStore opened = open_store(store);
  return make_expert_files(std::move(opened.index.table), std::move(opened.files));
}

bool is_store(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / kStoreIndexName, error);
}

}  // namespace perigee
