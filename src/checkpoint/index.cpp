#include "checkpoint/index.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/json_walk.h"
#include "checkpoint/safetensors.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kShardSuffix = ".safetensors";
// K3's index has 50 MB, the largest conversion of it 125 MB.
constexpr std::uint64_t kMaxIndexBytes = 512'000'000;
constexpr std::size_t kMaxFileNameBytes = 255;

// A file name that can only mean a file inside the checkpoint's folder.
bool is_plain_shard_name(std::string_view name) {
  return name.ends_with(kShardSuffix) && name.size() <= kMaxFileNameBytes && !name.starts_with('.') &&
         name.find_first_of("/\\:") == std::string_view::npos && !has_control_character(name);
}

// Numbers shards by first appearance while reading.
class ShardNumbers {
 public:
  explicit ShardNumbers(const std::string& origin) : origin_(origin) {}

  std::uint32_t number(std::string_view file_name, std::string_view tensor) {
    if (last_ < names_.size() && names_[last_] == file_name) return last_;
    const auto [found, is_new] = numbers_.try_emplace(std::string(file_name), names_.size());
    if (is_new) {
      if (!is_plain_shard_name(file_name)) {
        fail(ErrorCode::kCorrupt,
             "{}: tensor {} is said to be in {}, which is not a plain *.safetensors file name", origin_,
             quoted_name(tensor), quoted_name(file_name));
      }
      names_.emplace_back(file_name);
    }
    last_ = found->second;
    return last_;
  }

  // Puts the shards in alphabetical order and corrects the entries accordingly.
  void finish(CheckpointIndex& index) const {
    std::vector<std::uint32_t> order(names_.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(), [&](auto a, auto b) { return names_[a] < names_[b]; });
    std::vector<std::uint32_t> rank(names_.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) {
      rank[order[i]] = i;
      index.shards.push_back(names_[order[i]]);
    }
    for (IndexEntry& entry : index.entries) entry.shard = rank[entry.shard];
  }

 private:
  const std::string& origin_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::uint32_t, NameHash> numbers_;
  std::uint32_t last_ = 0;
};

class IndexReader {
 public:
  explicit IndexReader(const std::string& origin) : origin_(origin), shards_(origin) {}

  void field(std::string_view key, JsonValue value) {
    if (key == "weight_map") {
      first_time(has_weight_map_, key);
      read_weight_map(value);
    } else if (key == "metadata") {
      first_time(has_metadata_, key);
      read_metadata(value);
    } else {
      check_json_value(value, origin_);
    }
  }

  CheckpointIndex finish() {
    if (!has_weight_map_) fail(ErrorCode::kCorrupt, "{} has no \"weight_map\"", origin_);
    shards_.finish(index_);
    try {
      index_.rebuild_lookup();
    } catch (const Error& error) {
      fail(error.code(), "{}: {}", origin_, error.what());
    }
    return std::move(index_);
  }

 private:
  void first_time(bool& seen, std::string_view key) const {
    if (seen) fail(ErrorCode::kCorrupt, "{} has {} twice", origin_, quoted_name(key));
    seen = true;
  }

  void read_metadata(JsonValue value) {
    for_each_field(json_object(value, origin_, "\"metadata\""), [&](std::string_view key, JsonValue member) {
      if (key != "total_size") return check_json_value(member, origin_);
      if (index_.total_size) fail(ErrorCode::kCorrupt, "{} has \"total_size\" twice", origin_);
      index_.total_size = json_integer(member, origin_, "metadata.total_size");
    });
  }

  void read_weight_map(JsonValue value) {
    for_each_field(json_object(value, origin_, "\"weight_map\""), [&](std::string_view name, JsonValue file) {
      if (has_control_character(name))
        fail(ErrorCode::kCorrupt, "{}: the tensor name {} has a control character", origin_,
             quoted_name(name));
      if (file.type() != simdjson::ondemand::json_type::string)
        fail(ErrorCode::kCorrupt, "{}: the file of tensor {} is not a string", origin_, quoted_name(name));
      const std::string_view file_name = file.get_string();
      index_.entries.push_back({std::string(name), shards_.number(file_name, name)});
    });
  }

  const std::string& origin_;
  ShardNumbers shards_;
  CheckpointIndex index_;
  bool has_weight_map_ = false;
  bool has_metadata_ = false;
};

std::vector<fs::path> shard_files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (is_plain_shard_name(at->path().filename().string())) files.push_back(at->path());
  }
  if (error) fail_errno(error.value(), fmt::format("cannot read the folder {}", folder.string()));
  return files;
}

CheckpointIndex index_of_single_file(const fs::path& path) {
  const SafetensorsHeader header = read_safetensors_header(File::open_read(path));
  CheckpointIndex index;
  index.shards.push_back(path.filename().string());
  for (const TensorInfo& tensor : header.tensors) index.entries.push_back({tensor.name, 0});
  index.total_size = header.data_bytes;
  index.rebuild_lookup();
  return index;
}

}  // namespace

const std::string* CheckpointIndex::shard_of(std::string_view name) const {
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : &shards[entries[found->second].shard];
}

void CheckpointIndex::rebuild_lookup() {
  by_name.clear();
  by_name.reserve(entries.size());
  for (std::uint32_t i = 0; i < entries.size(); ++i) {
    if (!by_name.emplace(entries[i].name, i).second)
      fail(ErrorCode::kCorrupt, "tensor {} is listed twice", quoted_name(entries[i].name));
  }
}

CheckpointIndex parse_index(std::string_view json, const std::string& origin) {
  IndexReader reader(origin);
  walk_json(json, origin, [&](std::string_view key, JsonValue value) { reader.field(key, value); });
  return reader.finish();
}

CheckpointIndex load_index(const fs::path& path) {
  return parse_index(read_small_file(path, kMaxIndexBytes), path.string());
}

CheckpointIndex load_checkpoint_index(const fs::path& checkpoint) {
  const fs::path path = checkpoint / kIndexFileName;
  std::error_code ignored;
  if (fs::exists(path, ignored)) return load_index(path);
  const std::vector<fs::path> files = shard_files_in(checkpoint);
  if (files.size() == 1) return index_of_single_file(files.front());
  fail(ErrorCode::kNotFound, "{} has no {} and {} *.safetensors files; name the folder of a checkpoint",
       checkpoint.string(), kIndexFileName, files.size());
}

std::string serialize_index(const CheckpointIndex& index) {
  std::string out = "{\n  \"metadata\": {";
  if (index.total_size)
    fmt::format_to(std::back_inserter(out), "\n    \"total_size\": {}\n  ", *index.total_size);
  out += "},\n  \"weight_map\": {";
  const char* separator = "\n    ";
  for (const IndexEntry& entry : index.entries) {
    out += separator;
    append_json_string(out, entry.name);
    out += ": ";
    append_json_string(out, index.shards.at(entry.shard));
    separator = ",\n    ";
  }
  out += index.entries.empty() ? "}\n}\n" : "\n  }\n}\n";
  return out;
}

}  // namespace perigee
