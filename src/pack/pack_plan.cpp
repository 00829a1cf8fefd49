#include "pack/pack_plan.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "experts/store_format.h"
#include "pack/trunk_plan.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormatName = "perigee store 1";
constexpr std::uint64_t kMaxConfigBytes = 16ull << 20;

bool is_inside(const fs::path& inner, const fs::path& outer) {
  const auto [outer_end, ignored] = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  return outer_end == outer.end();
}

void check_folders(const PackOptions& options) {
  if (!fs::is_directory(options.source)) {
    fail(ErrorCode::kNotFound, "{} is not a folder; give the folder that holds config.json and the shards",
         options.source.string());
  }
  if (is_store(options.source)) {
    fail(ErrorCode::kUsage, "{} is a store already; pack the checkpoint that it was made from",
         options.source.string());
  }
  std::vector<fs::path> targets = {options.store};
  for (const Stripe& stripe : options.stripes) targets.push_back(stripe.folder);
  const fs::path source = canonical_path(options.source);
  for (const fs::path& target : targets) {
    const fs::path path = canonical_path(target);
    if (is_inside(path, source) || is_inside(source, path)) {
      fail(ErrorCode::kUsage, "source {} and {} must be separate folders, neither inside the other",
           source.string(), path.string());
    }
  }
}

}  // namespace

void check_pack_options(const PackOptions& options) {
  if (options.link && options.delete_source) {
    fail(ErrorCode::kUsage, "--link leaves the experts in the source, so --delete-source would lose them");
  }
  if (options.link && !options.stripes.empty()) {
    fail(ErrorCode::kUsage, "--link leaves the experts where they are, so there is nothing to --stripe");
  }
  std::set<fs::path> folders;
  for (const Stripe& stripe : options.stripes) {
    if (folders.insert(canonical_path(stripe.folder)).second) continue;
    fail(ErrorCode::kUsage, "--stripe names {} twice", stripe.folder.string());
  }
  check_folders(options);
}

namespace {

std::string fingerprint_of(const PackOptions& options, const PackPlan& plan) {
  const std::string index = serialize_index(plan.index);
  std::string text = fmt::format("{}\nconfig {:016x}\nindex {:016x}\nlink {}\n", kFormatName,
                                 xxh3_64(std::as_bytes(std::span(plan.config_text))),
                                 xxh3_64(std::as_bytes(std::span(index))), options.link);
  for (const Plane plane : kPlanes) {
    text += fmt::format("{} {}\n", plane_name(plane),
                        plane_format_name(options.planes[static_cast<std::size_t>(plane)]));
  }
  const fs::path store = canonical_path(options.store);  // the folders may move together
  for (const Stripe& stripe : options.stripes) {
    const fs::path folder = canonical_path(stripe.folder).lexically_relative(store);
    text += fmt::format("stripe {} {}\n", folder.string(), stripe.weight);
  }
  return sha256_hex(std::as_bytes(std::span(text)));
}

PackItem layer_item(const PackOptions& options, const PackPlan& plan, std::uint64_t layer) {
  PackItem item;
  item.name = fmt::format("experts-{:05}", layer);
  item.number = layer;
  const std::uint64_t first = plan.experts.first_records()[layer];
  std::set<std::uint32_t> shards;
  for (std::uint64_t e = 0; e < plan.experts.experts; ++e) {
    const ExpertRecord& record = plan.experts.records[first + e];
    const RunLayout& layout = plan.experts.layouts[record.layout];
    shards.insert(record.file);
    item.source_bytes += layout.bytes;
    item.store_bytes += options.link ? 0 : record_layout(layout).bytes;
  }
  item.shards.assign(shards.begin(), shards.end());
  return item;
}

// A layer comes right after the trunk of the last shard that has a part of it, so that shards are used up one
// after another.
void order_items(const PackOptions& options, PackPlan& plan, std::vector<PackItem> trunk) {
  std::vector<std::vector<PackItem>> layers(trunk.size());
  for (std::uint64_t layer = 0; layer < plan.experts.has_experts.size(); ++layer) {
    if (!plan.experts.has_experts[layer]) continue;
    PackItem item = layer_item(options, plan, layer);
    layers[item.shards.back()].push_back(std::move(item));
  }
  for (std::size_t shard = 0; shard < trunk.size(); ++shard) {
    plan.items.push_back(std::move(trunk[shard]));
    std::ranges::move(layers[shard], std::back_inserter(plan.items));
  }
}

}  // namespace

PackPlan plan_pack(const PackOptions& options, const ReadShardHeader& read_header) {
  PackPlan plan;
  plan.config_text = read_small_file(options.source / "config.json", kMaxConfigBytes);
  plan.config = parse_config(plan.config_text, (options.source / "config.json").string());
  plan.index = load_checkpoint_index(options.source);
  std::vector<PackItem> trunk;
  const auto see_header = [&](const std::string& name) {
    ShardHeader shard = read_header(name);
    const TrunkPlan file = plan_trunk(shard.header, plan.config, options.planes);
    PackItem item;
    item.is_trunk = true;
    item.number = trunk.size();
    item.name = trunk_item_name(item.number);
    item.shards = {static_cast<std::uint32_t>(item.number)};
    item.source_bytes = file.source_bytes;
    item.store_bytes = file.tensors.empty() ? 0 : file.file_bytes;
    for (const auto& [plane, sums] : planned_planes(file)) plan.planes[plane].add(sums);
    plan.shard_bytes.push_back(shard.file_bytes);
    trunk.push_back(std::move(item));
    return shard;
  };
  plan.experts = find_checkpoint_experts(options.source, plan.config, plan.index, see_header).table;
  order_items(options, plan, std::move(trunk));
  plan.fingerprint = fingerprint_of(options, plan);
  return plan;
}

std::vector<RunLayout> source_layouts(const PackPlan& plan, std::uint64_t layer) {
  const std::uint64_t first = plan.experts.first_records()[layer];
  std::vector<RunLayout> layouts;
  for (std::uint64_t e = 0; e < plan.experts.experts; ++e) {
    layouts.push_back(plan.experts.layouts[plan.experts.records[first + e].layout]);
  }
  return layouts;
}

std::vector<Stripe> record_folders(const PackOptions& options) {
  if (options.stripes.empty()) return {{options.store, 1}};
  return options.stripes;
}

fs::path canonical_path(const fs::path& path) {
  const fs::path canonical = fs::weakly_canonical(fs::absolute(path));
  return canonical.has_filename() ? canonical : canonical.parent_path();  // "folder/" is "folder"
}

std::string trunk_item_name(std::uint64_t shard) {
  return fmt::format("trunk-{:05}", shard + 1);
}

std::string trunk_file_name(std::uint64_t shard) {
  return trunk_item_name(shard) + ".safetensors";
}

}  // namespace perigee
