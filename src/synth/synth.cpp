#include "synth/synth.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/file.h"
#include "base/pipeline.h"
#include "checkpoint/index.h"
#include "synth/shard_layout.h"
#include "synth/shard_writer.h"
#include "synth/side_files.h"
#include "synth/tensor_values.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kBufferBytes = 96u << 20;
constexpr std::uint64_t kMaxReadmeBytes = 1u << 20;

bool made_by_synth(const fs::path& out) {
  const fs::path readme = out / "README.md";
  return fs::exists(readme) && read_small_file(readme, kMaxReadmeBytes).starts_with(synth::kReadmeTitle);
}

// Leaves no shard of an earlier run behind that the new index would not know.
void remove_earlier_run(const fs::path& out) {
  fs::remove(out / kIndexFileName);
  std::vector<fs::path> stale;
  for (const fs::directory_entry& entry : fs::directory_iterator(out)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".safetensors") || name.ends_with(".partial")) stale.push_back(entry.path());
  }
  for (const fs::path& path : stale) fs::remove(path);
}

void prepare_folder(const fs::path& out, bool overwrite) {
  if (fs::exists(out) && !fs::is_directory(out)) fail(ErrorCode::kExists, "{} is not a folder", out.string());
  fs::create_directories(out);
  if (fs::is_empty(out)) return;
  if (!overwrite)
    fail(ErrorCode::kExists, "{} is not empty; choose another folder or add --overwrite", out.string());
  if (!made_by_synth(out)) {
    fail(ErrorCode::kExists,
         "{} holds something that synth did not make and will not overwrite; choose another folder",
         out.string());
  }
  remove_earlier_run(out);
}

void check_space(const fs::path& out, std::uint64_t bytes) {
  const std::uint64_t available = fs::space(out).available;
  if (available >= bytes) return;
  fail(ErrorCode::kNoSpace,
       "{} has room for {} but the shards need {}; choose --shards, smaller sizes or --ghost", out.string(),
       format_bytes(available), format_bytes(bytes));
}

SynthSummary summarise(const std::vector<SchemaShard>& shards) {
  SynthSummary summary;
  summary.shards = shards.size();
  for (const SchemaShard& shard : shards) {
    summary.tensors += shard.tensors.size();
    summary.tensor_bytes += shard.tensors.back().end;
    for (const TensorInfo& tensor : shard.tensors) {
      const TensorName name = parse_tensor_name(tensor.name);
      summary.experts += name.tensor_class == TensorClass::kExpert && name.projection == Projection::kW1 &&
                         name.part == Part::kWeightPacked;
    }
  }
  return summary;
}

void write_shards(const fs::path& out, const std::vector<SchemaShard>& shards,
                  const synth::TensorValues& values, const SynthOptions& options, const CancelToken* cancel,
                  Progress& progress) {
  const std::unique_ptr<AsyncIo> io = make_async_io(options.io);
  PipelineOptions pipeline_options;
  pipeline_options.workers = options.jobs;
  pipeline_options.memory_bytes = kBufferBytes;
  pipeline_options.cancel = cancel;
  Pipeline pipeline(*io, pipeline_options);
  synth::ShardWriter writer(*io, pipeline, values, progress);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    progress.set_detail(fmt::format("shard {}/{}", i + 1, shards.size()));
    writer.write(shards[i], out / shards[i].file_name);
  }
}

void write_ghosts(const fs::path& out, const std::vector<SchemaShard>& shards, const CancelToken* cancel,
                  Progress& progress) {
  for (const SchemaShard& shard : shards) {
    if (cancel != nullptr) cancel->check();
    progress.add(synth::write_ghost(shard, out / shard.file_name));
  }
}

}  // namespace

SynthSummary make_checkpoint(const fs::path& out, const SynthOptions& options, const CancelToken* cancel,
                             ProgressStyle style) {
  const auto start = std::chrono::steady_clock::now();
  const K3Config config = synth_config(options.preset, options.sizes);
  const std::vector<SchemaShard> all = synth::shard_layout(config, options);
  const std::vector<SchemaShard> shards = synth::chosen_shards(all, options);
  SynthSummary summary = summarise(shards);
  for (const SchemaShard& shard : shards) summary.file_bytes += synth::shard_file_bytes(shard);

  prepare_folder(out, options.overwrite);
  if (!options.ghost) check_space(out, summary.file_bytes);
  for (const synth::SideFile& file : synth::side_files(config, options)) {
    write_file_atomically(out / file.name, file.text);
  }
  Progress progress("synth", summary.file_bytes, style);
  if (options.ghost) {
    write_ghosts(out, shards, cancel, progress);
  } else {
    write_shards(out, shards, synth::TensorValues(config, options), options, cancel, progress);
  }
  write_file_atomically(out / kIndexFileName,
                        serialize_index(synth::index_of(options.full_index ? all : shards)));
  progress.finish();
  summary.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return summary;
}

}  // namespace perigee
