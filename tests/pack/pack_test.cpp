// Stores of small checkpoints: what is in them is compared with the checkpoint's tensors as an independent
// reader gives them.
#include <gtest/gtest.h>
#include <xxhash.h>

#include <cmath>
#include <cstring>
#include <fstream>

#include "checkpoint/tensor_name.h"
#include "experts/store_format.h"
#include "numerics/bf16.h"
#include "numerics/e2m1.h"
#include "numerics/e4m3.h"
#include "pack/packed.h"
#include "pack/verify_store.h"
#include "support/expect_error.h"
#include "support/mini_safetensors.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;
using test::quiet_pack;
using test::small_model;
using test::store_of;

test::MiniTensors tensors_of(const fs::path& folder) {
  test::MiniTensors all;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") all.merge(test::read_safetensors(entry.path()));
  }
  return all;
}

std::vector<std::byte> read_record(const ExpertFiles& experts, const ExpertPlace& place) {
  std::vector<std::byte> record(place.bytes);
  File::open_read(experts.files()[place.file]).read_exact(record, place.offset);
  return record;
}

void expect_part(const std::byte* part, const test::MiniTensor& tensor, const std::string& name) {
  EXPECT_EQ(std::memcmp(part, tensor.data.data(), tensor.data.size()), 0) << name;
}

// Every expert of the store is the checkpoint's, in an aligned record with its checksum.
void expect_experts(const fs::path& store, const fs::path& checkpoint, const char* values,
                    const char* global = nullptr) {
  const auto experts = open_store_experts(store);
  const test::MiniTensors tensors = tensors_of(checkpoint);
  const K3Config config = load_config(checkpoint / "config.json");
  for (std::uint64_t layer = 1; layer < config.num_hidden_layers; ++layer) {
    for (std::uint64_t e = 0; e < config.num_experts; ++e) {
      const ExpertPlace place = experts->place(layer, e);
      EXPECT_EQ(place.offset % 4096, 0u);
      EXPECT_EQ(place.bytes % 4096, 0u);
      const auto record = read_record(*experts, place);
      ASSERT_EQ(place.checksum, XXH3_64bits(record.data(), record.size()));
      const ExpertWeights weights = experts->weights(layer, e, record.data());
      const std::array<const Matrix*, 3> matrices = {&weights.w1, &weights.w2, &weights.w3};
      for (std::size_t i = 0; i < 3; ++i) {
        const std::string module = expert_module_name(layer, e, static_cast<Projection>(i + 1));
        expect_part(matrices[i]->values, tensors.at(module + values), module);
        expect_part(matrices[i]->scales, tensors.at(module + ".weight_scale"), module);
        if (global == nullptr) continue;
        const float scale = tensors.at(module + global).as<float>()[0];
        const bool divides = std::string(global) == ".weight_global_scale";
        EXPECT_EQ(matrices[i]->global_scale, divides ? 1 / scale : scale) << module;
      }
    }
  }
}

bool is_expert(const std::string& name) {
  return name.find(".experts.") != std::string::npos;
}

TEST(Pack, PutsEveryExpertOfTheReleaseIntoARecord) {
  expect_experts(store_of(small_model()), small_model(), ".weight_packed");
}

TEST(Pack, KeepsEveryOtherTensorUnderItsName) {
  const test::MiniTensors stored = tensors_of(store_of(small_model()));
  std::size_t compared = 0;
  for (const auto& [name, tensor] : tensors_of(small_model())) {
    if (is_expert(name)) {
      EXPECT_FALSE(stored.contains(name)) << name;
      continue;
    }
    ASSERT_TRUE(stored.contains(name)) << name;
    EXPECT_EQ(stored.at(name).dtype, tensor.dtype) << name;
    EXPECT_EQ(stored.at(name).shape, tensor.shape) << name;
    EXPECT_EQ(stored.at(name).data, tensor.data) << name;
    ++compared;
  }
  EXPECT_GT(compared, 60u);
  EXPECT_EQ(load_checkpoint_index(store_of(small_model())).entries.size(), compared);
}

TEST(Pack, CarriesTheSideFilesAlong) {
  for (const char* name : {"config.json", "tokenizer_config.json"}) {
    if (!fs::exists(small_model() / name)) continue;
    EXPECT_EQ(read_small_file(store_of(small_model()) / name, 1 << 20),
              read_small_file(small_model() / name, 1 << 20));
  }
}

TEST(Pack, TakesBothNvfp4LayoutsAsTheyAre) {
  const fs::path& modelopt = test::converted_model(Layout::kModelOpt);
  const StoreReport report = load_store_report(store_of(modelopt));
  EXPECT_EQ(report.expert_format, "nvfp4");
  EXPECT_TRUE(report.is_lossless());
  expect_experts(store_of(modelopt), modelopt, ".weight", ".weight_scale_2");
  const fs::path& compressed = test::converted_model(Layout::kCompressedTensors);
  expect_experts(store_of(compressed), compressed, ".weight_packed", ".weight_global_scale");
}

TEST(Pack, SpreadsRecordsOverFoldersThatMayMoveWithTheStoreOrStay) {
  const test::TempDir folder;
  PackOptions options = quiet_pack(small_model(), folder / "store");
  options.stripes = {{folder / "one", 1}, {folder / "three", 3}};
  pack_checkpoint(options);
  expect_experts(folder / "store", small_model(), ".weight_packed");
  EXPECT_EQ(fs::file_size(folder / "three" / "experts-00002.bin"),
            3 * fs::file_size(folder / "one" / "experts-00002.bin"));
  EXPECT_FALSE(fs::exists(folder / "store" / "experts-00002.bin"));
  fs::create_directories(folder / "moved" / "below");
  fs::rename(folder / "store", folder / "moved" / "below" / "store");
  expect_experts(folder / "moved" / "below" / "store", small_model(), ".weight_packed");  // they stayed
  for (const char* name : {"one", "three"}) fs::rename(folder / name, folder / "moved" / "below" / name);
  expect_experts(folder / "moved" / "below" / "store", small_model(), ".weight_packed");  // they moved
}

TEST(Pack, LeavesTheExpertsInTheCheckpointIfTheyAreLinked) {
  const test::LinkedStore& store = test::linked_store();
  EXPECT_TRUE(store.report.linked);
  for (const auto& [name, bytes] : test::tree(store.path)) EXPECT_FALSE(name.ends_with(".bin")) << name;
  const auto experts = open_store_experts(store.path);
  const auto original = open_checkpoint_experts(store.source);
  const ExpertPlace place = experts->place(2, 5);
  EXPECT_EQ(place.offset, original->place(2, 5).offset);
  EXPECT_TRUE(fs::equivalent(experts->files()[place.file], original->files()[original->place(2, 5).file]));
  const auto run = read_record(*experts, place);
  EXPECT_EQ(place.checksum, XXH3_64bits(run.data(), run.size()));
}

// --- planes ---

struct Rounding {
  double error = 0, source = 0;
  double relative() const { return std::sqrt(error / source); }
  void add(double original, double stored) {
    error += (original - stored) * (original - stored);
    source += original * original;
  }
};

void add_fp8(const test::MiniTensor& original, const test::MiniTensors& stored, const std::string& name,
             Rounding& rounding) {
  const test::MiniTensor& fp8 = stored.at(name);
  ASSERT_EQ(fp8.dtype, "F8_E4M3") << name;
  const auto scales = stored.at(name + "_scale").as<float>();
  const std::size_t columns = original.shape[1], tile_columns = (columns + 127) / 128;
  const auto values = original.as<std::uint16_t>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float scale = scales[i / columns / 128 * tile_columns + i % columns / 128];
    rounding.add(bf16_value(values[i]), e4m3_value(std::to_integer<std::uint8_t>(fp8.data[i])) * scale);
  }
}

TEST(PackedPlanes, InFp8AreTilesAndReportTheirError) {
  const test::MiniTensors source = tensors_of(small_model()), stored = tensors_of(test::rounded_store().path);
  Rounding rounding;
  std::uint64_t tensors = 0, bytes = 0;
  for (const auto& [name, original] : source) {
    if (name.find("shared_experts") == std::string::npos) continue;
    add_fp8(original, stored, name, rounding);
    ++tensors;
    bytes += original.data.size();
  }
  const PlaneSums& shared = test::rounded_store().report.planes.at(Plane::kShared);
  EXPECT_EQ(shared.tensors, 2 * 3u);
  EXPECT_EQ(shared.tensors, tensors);
  EXPECT_EQ(shared.rounded, tensors);
  EXPECT_EQ(shared.source_bytes, bytes);
  EXPECT_NEAR(shared.error.relative_rmse(), rounding.relative(), 1e-9);
  EXPECT_GT(rounding.relative(), 0.01);
  EXPECT_LT(rounding.relative(), 0.04);
  EXPECT_FALSE(test::rounded_store().report.is_lossless());
}

TEST(PackedPlanes, InNvfp4AreModelOptsAndReportTheirError) {
  const test::MiniTensors source = tensors_of(small_model()), stored = tensors_of(test::rounded_store().path);
  const test::MiniTensor& packed = stored.at("language_model.lm_head.weight");
  const auto original = source.at("language_model.lm_head.weight").as<std::uint16_t>();
  const test::MiniTensor& scales = stored.at("language_model.lm_head.weight_scale");
  const float scale_2 = stored.at("language_model.lm_head.weight_scale_2").as<float>()[0];
  Rounding rounding;
  for (std::size_t i = 0; i < original.size(); ++i) {
    const auto pair = std::to_integer<std::uint8_t>(packed.data[i / 2]);
    const double element = e2m1_value(i % 2 == 0 ? pair & 15 : pair >> 4);
    rounding.add(bf16_value(original[i]),
                 element * e4m3_value(std::to_integer<std::uint8_t>(scales.data[i / 16])) * scale_2);
  }
  EXPECT_NEAR(test::rounded_store().report.planes.at(Plane::kHead).error.relative_rmse(), rounding.relative(),
              1e-9);
  EXPECT_GT(rounding.relative(), 0.05);
  EXPECT_LT(rounding.relative(), 0.15);
}

TEST(PackedPlanes, AreOnlyThoseThatWereAskedFor) {
  const fs::path& store = test::rounded_store().path;
  const test::MiniTensors source = tensors_of(small_model());
  std::size_t kept = 0;
  for (const auto& [name, tensor] : tensors_of(store)) {
    const bool is_rounded =
        name.find("shared_experts") != std::string::npos || name.find("lm_head") != std::string::npos ||
        (name.find("self_attn.") != std::string::npos && name.find("_proj") != std::string::npos);
    if (is_rounded) {
      EXPECT_NE(tensor.dtype, "BF16") << name;
    } else {
      EXPECT_EQ(tensor.data, source.at(name).data) << name;
      ++kept;
    }
  }
  EXPECT_GT(kept, 40u);
  expect_experts(store, small_model(), ".weight_packed");
}

TEST(PackedPlanes, KeepAnFp8CheckpointsAttention) {
  const test::TempDir folder;
  const fs::path& mixed = test::converted_model(Layout::kNvidiaMixed);
  PackOptions options = quiet_pack(mixed, folder / "store");
  options.planes[static_cast<std::size_t>(Plane::kAttention)] = PlaneFormat::kFp8;
  EXPECT_EQ(estimate_pack(options).planes.at(Plane::kAttention).rounded, 0u);
  options.planes[static_cast<std::size_t>(Plane::kAttention)] = PlaneFormat::kNvfp4;
  EXPECT_ERROR(pack_checkpoint(options), ErrorCode::kUnsupported, "only BF16 can become nvfp4");
}

// --- refusals ---

TEST(Pack, RefusesOptionsThatDoNotGoTogether) {
  const test::TempDir folder;
  PackOptions options = quiet_pack(small_model(), folder / "store");
  options.link = true;
  options.delete_source = true;
  EXPECT_ERROR(pack_checkpoint(options), ErrorCode::kUsage, "--delete-source");
  options.delete_source = false;
  options.stripes = {{folder / "a", 1}};
  EXPECT_ERROR(pack_checkpoint(options), ErrorCode::kUsage, "--stripe");
  options.link = false;
  options.stripes = {{folder / "a", 1}, {folder / "b" / ".." / "a", 1}};
  EXPECT_ERROR(pack_checkpoint(options), ErrorCode::kUsage, "twice");
  EXPECT_ERROR(pack_checkpoint(quiet_pack(small_model(), small_model() / "inside")), ErrorCode::kUsage,
               "inside");
  EXPECT_ERROR(pack_checkpoint(quiet_pack(store_of(small_model()), folder / "again")), ErrorCode::kUsage,
               "store already");
  EXPECT_ERROR(pack_checkpoint(quiet_pack(folder / "nowhere", folder / "s")), ErrorCode::kNotFound,
               "nowhere");
}

TEST(Pack, LeavesForeignFilesAlone) {
  const test::TempDir folder;
  fs::create_directory(folder / "store");
  std::ofstream(folder / "store" / "diary.txt") << "dear";
  EXPECT_ERROR(pack_checkpoint(quiet_pack(small_model(), folder / "store")), ErrorCode::kExists, "diary.txt");
  fs::create_directory(folder / "stripe");
  std::ofstream(folder / "stripe" / "experts-00001.bin") << "dear";
  PackOptions options = quiet_pack(small_model(), folder / "fresh");
  options.stripes = {{folder / "stripe", 1}};
  EXPECT_ERROR(pack_checkpoint(options), ErrorCode::kExists, "experts-00001.bin");
}

TEST(Pack, DoesNothingTwice) {
  const auto before = test::tree(store_of(small_model()));
  const PackOutcome outcome = pack_checkpoint(quiet_pack(small_model(), store_of(small_model())));
  EXPECT_TRUE(outcome.already_complete);
  EXPECT_EQ(test::tree(store_of(small_model())), before);
  PackOptions other = quiet_pack(small_model(), store_of(small_model()));
  other.planes[0] = PlaneFormat::kFp8;
  EXPECT_ERROR(pack_checkpoint(other), ErrorCode::kExists, "other options");
}

TEST(Pack, DeletesEachShardWhenAskedTo) {
  const test::TempDir folder;
  fs::copy(small_model(), folder / "source", fs::copy_options::recursive);
  PackOptions options = quiet_pack(folder / "source", folder / "store");
  options.delete_source = true;
  pack_checkpoint(options);
  for (const auto& entry : fs::directory_iterator(folder / "source")) {
    EXPECT_NE(entry.path().extension(), ".safetensors") << entry.path();
  }
  expect_experts(folder / "store", small_model(), ".weight_packed");
  EXPECT_TRUE(pack_checkpoint(options).already_complete);
}

TEST(Pack, SaysHowLargeEverythingWillBe) {
  const test::TempDir folder;
  const PackEstimate estimate = estimate_pack(quiet_pack(small_model(), folder / "store"));
  std::uint64_t records = 0, trunk = 0;
  for (const auto& entry : fs::directory_iterator(store_of(small_model()))) {
    const std::string name = entry.path().filename();
    if (name.ends_with(".bin")) records += entry.file_size();
    if (name.ends_with(".safetensors")) trunk += entry.file_size();
  }
  EXPECT_EQ(estimate.expert_bytes, records);
  EXPECT_EQ(estimate.trunk_bytes, trunk);
  EXPECT_EQ(estimate.folders.front().needed, records + trunk);
  EXPECT_FALSE(fs::exists(folder / "store"));
}

// --- what a store that was tampered with says ---

TEST(OpenedStore, KnowsItsConfigAndItsFiles) {
  const test::TempDir folder;
  fs::copy(store_of(small_model()), folder / "store", fs::copy_options::recursive);
  const std::string config = read_small_file(folder / "store" / "config.json", 1 << 20);
  write_file_atomically(folder / "store" / "config.json", config + " ");
  EXPECT_ERROR(open_store(folder / "store"), ErrorCode::kMismatch, "config.json");
  write_file_atomically(folder / "store" / "config.json", config);
  open_store(folder / "store");
  fs::resize_file(folder / "store" / "experts-00002.bin", 8192);
  EXPECT_ERROR(open_store(folder / "store"), ErrorCode::kMismatch, "experts-00002.bin has 8192 bytes");
  fs::remove(folder / "store" / "experts-00002.bin");
  EXPECT_ERROR(open_store(folder / "store"), ErrorCode::kNotFound, "experts-00002.bin");
}

}  // namespace
}  // namespace perigee
