// Places of experts in the shards of a checkpoint: what is found there is compared with the tensors as an
// independent reader of safetensors gives them.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "base/file.h"
#include "checkpoint/tensor_name.h"
#include "experts/expert_files.h"
#include "support/expect_error.h"
#include "support/mini_model.h"
#include "support/mini_safetensors.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

test::MiniTensors all_tensors(const fs::path& folder) {
  test::MiniTensors all;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") all.merge(test::read_safetensors(entry.path()));
  }
  return all;
}

std::vector<std::byte> read_run(const ExpertFiles& experts, const ExpertPlace& place) {
  std::vector<std::byte> run(place.bytes);
  File::open_read(experts.files()[place.file]).read_exact(run, place.offset);
  return run;
}

void expect_bytes(const std::byte* viewed, const test::MiniTensor& tensor, const std::string& what) {
  EXPECT_EQ(std::memcmp(viewed, tensor.data.data(), tensor.data.size()), 0) << what;
}

struct PartNames {
  const char* values;
  const char* global = nullptr;
  bool divides = false;
};

void expect_matrix(const Matrix& matrix, const test::MiniTensors& tensors, const std::string& module,
                   const PartNames& names) {
  const test::MiniTensor& values = tensors.at(module + names.values);
  EXPECT_EQ(matrix.rows, values.shape[0]) << module;
  EXPECT_EQ(matrix.columns, values.shape[1] * 2) << module;
  expect_bytes(matrix.values, values, module);
  expect_bytes(matrix.scales, tensors.at(module + ".weight_scale"), module);
  if (names.global == nullptr) return;
  const float global = tensors.at(module + names.global).as<float>()[0];
  EXPECT_EQ(matrix.global_scale, names.divides ? 1.0f / global : global) << module;
}

void expect_all(const fs::path& checkpoint, WeightFormat format, const PartNames& names) {
  const auto experts = open_checkpoint_experts(checkpoint);
  const test::MiniTensors tensors = all_tensors(checkpoint);
  const K3Config config = load_config(checkpoint / "config.json");
  ASSERT_EQ(experts->layers(), config.num_hidden_layers);
  ASSERT_EQ(experts->experts(), config.num_experts);
  for (std::uint64_t layer = 0; layer < experts->layers(); ++layer) {
    ASSERT_EQ(experts->has_experts(layer), layer > 0);  // the first layer is dense
    for (std::uint64_t e = 0; layer > 0 && e < experts->experts(); ++e) {
      const ExpertPlace place = experts->place(layer, e);
      EXPECT_LE(place.bytes, experts->largest_run());
      EXPECT_FALSE(place.checksum.has_value());
      const auto run = read_run(*experts, place);
      const ExpertWeights weights = experts->weights(layer, e, run.data());
      EXPECT_EQ(weights.w2.format, format);
      expect_matrix(weights.w1, tensors, expert_module_name(layer, e, Projection::kW1), names);
      expect_matrix(weights.w2, tensors, expert_module_name(layer, e, Projection::kW2), names);
      expect_matrix(weights.w3, tensors, expert_module_name(layer, e, Projection::kW3), names);
    }
  }
}

TEST(CheckpointExperts, AreWhereTheReleaseHasThem) {
  expect_all(test::mini_model(), WeightFormat::kMxfp4, {".weight_packed"});
}

TEST(CheckpointExperts, AreRunsWithoutAWastedByteInTheRelease) {
  const auto experts = open_checkpoint_experts(test::mini_model());
  const K3Config config = load_config(test::mini_model() / "config.json");
  const std::uint64_t weights = 3 * config.moe_intermediate_size * config.routed_expert_hidden_size;
  EXPECT_EQ(experts->largest_run(), weights / 2 + weights / 32);
  EXPECT_EQ(experts->place(1, 1).offset, experts->place(1, 0).offset + experts->largest_run());
}

TEST(CheckpointExperts, AreWhereModelOptHasThem) {
  const test::TempDir folder;
  test::make_nvfp4(test::mini_model(), folder / "nvfp4", Layout::kModelOpt);
  expect_all(folder / "nvfp4", WeightFormat::kNvfp4, {".weight", ".weight_scale_2"});
}

TEST(CheckpointExperts, AreWhereCompressedTensorsHasThem) {
  const test::TempDir folder;
  test::make_nvfp4(test::mini_model(), folder / "nvfp4", Layout::kCompressedTensors);
  expect_all(folder / "nvfp4", WeightFormat::kNvfp4, {".weight_packed", ".weight_global_scale", true});
}

TEST(CheckpointExperts, OfOneShuffledFileAreRefusedIfTheyAreSpreadOverIt) {
  const test::TempDir folder;
  SynthOptions options = test::mini_model_options();
  options.shuffle = true;
  make_checkpoint(folder / "shuffled", options);
  EXPECT_ERROR(open_checkpoint_experts(folder / "shuffled"), ErrorCode::kUnsupported, "spread over");
}

TEST(CheckpointExperts, WithATensorInAnotherShardAreRefusedByName) {
  const test::TempDir folder;
  SynthOptions options = test::mini_model_options();
  options.split_pairs = true;
  make_checkpoint(folder / "split", options);
  EXPECT_ERROR(open_checkpoint_experts(folder / "split"), ErrorCode::kNotFound, "w3.weight");
}

// Replaces the first occurrence in a file by as many bytes.
void replace_in_file(const fs::path& path, const std::string& from, const std::string& to) {
  ASSERT_EQ(from.size(), to.size());
  std::string text = read_small_file(path, 1 << 24);
  const std::size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  std::ofstream(path, std::ios::binary) << text;
}

TEST(CheckpointExperts, ThatTheConfigAsksForMustExist) {
  const test::TempDir folder;
  fs::copy(test::mini_model(), folder / "copy");
  replace_in_file(folder / "copy" / "config.json", "\"num_experts\": 8,", "\"num_experts\": 9,");
  EXPECT_ERROR(open_checkpoint_experts(folder / "copy"), ErrorCode::kNotFound, "experts.8.w1");
  replace_in_file(folder / "copy" / "config.json", "\"num_experts\": 9,", "\"num_experts\": 7,");
  EXPECT_ERROR(open_checkpoint_experts(folder / "copy"), ErrorCode::kUnsupported, "7 experts");
}

TEST(CheckpointExperts, MustHaveTheShapesThatTheConfigAsksFor) {
  const test::TempDir folder;
  fs::copy(test::mini_model(), folder / "copy");
  replace_in_file(folder / "copy" / "config.json", "\"moe_intermediate_size\": 32,",
                  "\"moe_intermediate_size\": 64,");
  EXPECT_ERROR(open_checkpoint_experts(folder / "copy"), ErrorCode::kUnsupported, "config.json asks for [64");
}

}  // namespace
}  // namespace perigee
