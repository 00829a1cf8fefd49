// Negative controls: every kind of damage must be found, and found where it is.
#include <gtest/gtest.h>

#include <fstream>

#include "base/hash.h"
#include "fixture.h"

namespace perigee::test {
namespace {

const std::string kExpert = "language_model.model.layers.1.block_sparse_moe.experts.1";
const std::string kShard = "model-00002-of-000003.safetensors";
const std::string kTrunk = "language_model.model.layers.1.self_attn.q_proj.weight";

MemoryCheckpoint cast_modelopt() {
  return convert_by_golden("source", "cast_modelopt");
}

const VerifyFailure* find_failure(const VerifyReport& report, const std::string& check) {
  for (const VerifyFailure& failure : report.failures.kept) {
    if (failure.check == check) return &failure;
  }
  return nullptr;
}

// The failure of that kind; the test fails if there is none.
VerifyFailure expect_failure(const VerifyReport& report, const std::string& check) {
  EXPECT_EQ(report.verdict, Verdict::kFailed);
  const VerifyFailure* failure = find_failure(report, check);
  EXPECT_NE(failure, nullptr) << "no failure of kind " << check << " among:\n" << messages(report);
  return failure == nullptr ? VerifyFailure{} : *failure;
}

std::uint8_t byte_at(const MiniTensor& tensor, std::size_t at) {
  return std::to_integer<std::uint8_t>(tensor.data.at(at));
}

// First byte whose nibbles differ by more than sign of zero, from `from` on.
std::size_t uneven_byte(const MiniTensor& packed, std::size_t from) {
  while ((byte_at(packed, from) & 15) == byte_at(packed, from) >> 4 || (byte_at(packed, from) & 0x77) == 0)
    ++from;
  return from;
}

void set_float(MiniTensor& tensor, float value) {
  std::memcpy(tensor.data.data(), &value, 4);
}
float get_float(const MiniTensor& tensor) {
  return tensor.as<float>().at(0);
}

class VerifyDamageLayouts : public ::testing::TestWithParam<const char*> {
 protected:
  MemoryCheckpoint output_ = convert_by_golden("source", GetParam());
  bool is_ct_ = std::string(GetParam()).ends_with("_ct");
  bool is_requantised_ = std::string(GetParam()).starts_with("requant");
  std::string packed_ = kExpert + (is_ct_ ? ".w1.weight_packed" : ".w1.weight");
  std::string factor_ = is_ct_ ? ".weight_global_scale" : ".weight_scale_2";
};

TEST_P(VerifyDamageLayouts, SwappedNibblesInOneByte) {
  MiniTensor& packed = output_.tensor(packed_);
  const std::size_t at = uneven_byte(packed, packed.data.size() / 2);
  packed.data[at] = std::byte(byte_at(packed, at) << 4 | byte_at(packed, at) >> 4);
  const VerifyFailure failure = expect_failure(verify("source", output_), "nibbles");
  EXPECT_EQ(failure.file, kShard);
  EXPECT_EQ(failure.tensor, packed_);
  EXPECT_EQ(failure.byte, at);
  EXPECT_EQ(failure.row, at / packed.shape[1]);
  EXPECT_EQ(failure.block, at % packed.shape[1] / 8);
}

TEST_P(VerifyDamageLayouts, SwappedHalvesOfAGroup) {
  MiniTensor& packed = output_.tensor(packed_);
  constexpr std::size_t kGroup = 16 * 40;
  std::swap_ranges(packed.data.begin() + kGroup, packed.data.begin() + kGroup + 8,
                   packed.data.begin() + kGroup + 8);
  const VerifyFailure failure = expect_failure(verify("source", output_), "nibbles");
  EXPECT_EQ(failure.tensor, packed_);
  EXPECT_EQ(failure.row, kGroup / packed.shape[1]);
}

TEST_P(VerifyDamageLayouts, AllNibblesSwapped) {
  for (std::byte& byte : output_.tensor(packed_).data) byte = byte << 4 | byte >> 4;
  const VerifyReport report = verify("source", output_);
  ASSERT_EQ(report.verdict, Verdict::kFailed);
  EXPECT_EQ(report.failures.kept.front().tensor, packed_);
}

TEST_P(VerifyDamageLayouts, ExponentOfOneBlockOffByOne) {
  for (const int step : {-8, 8}) {
    MemoryCheckpoint damaged = output_;
    MiniTensor& scales = damaged.tensor(kExpert + ".w2.weight_scale");
    std::size_t at = scales.data.size() / 3;
    while (byte_at(scales, at) + step > 0x7E || byte_at(scales, at) + step < 8) ++at;
    scales.data[at] = std::byte(byte_at(scales, at) + step);
    const VerifyReport report = verify("source", damaged);
    ASSERT_EQ(report.verdict, Verdict::kFailed) << messages(report);
    const VerifyFailure& failure = report.failures.kept.front();
    EXPECT_EQ(failure.row, at / scales.shape[1]) << failure.message;
    EXPECT_EQ(failure.block, at % scales.shape[1]) << failure.message;
    if (!is_requantised_) {
      EXPECT_EQ(failure.check, "block-scale");
      EXPECT_EQ(failure.byte, at);
    }
  }
}

TEST_P(VerifyDamageLayouts, InvertedTensorScaleIsCalledThat) {
  MiniTensor& factor = output_.tensor(kExpert + ".w2" + factor_);
  const float right = get_float(factor);
  set_float(factor, 1 / right);
  const VerifyFailure failure = expect_failure(verify("source", output_), "tensor-scale");
  EXPECT_EQ(failure.tensor, kExpert + ".w2" + factor_);
  EXPECT_NE(failure.message.find("reciprocal"), std::string::npos) << failure.message;
  EXPECT_NEAR(std::stod(failure.expected), right, 1e-6 * right);
}

TEST_P(VerifyDamageLayouts, TensorScaleOffByAPowerOfTwoIsOneFailure) {
  MiniTensor& factor = output_.tensor(kExpert + ".w2" + factor_);
  set_float(factor, get_float(factor) * 8);
  const VerifyReport report = verify("source", output_);
  EXPECT_EQ(expect_failure(report, "tensor-scale").tensor, kExpert + ".w2" + factor_);
  EXPECT_EQ(report.failures.count, 1u) << messages(report);
}

TEST_P(VerifyDamageLayouts, DifferentScalesOfW1AndW3) {
  MiniTensor& factor = output_.tensor(kExpert + ".w3" + factor_);
  set_float(factor, get_float(factor) * 2);
  const VerifyReport report = verify("source", output_);
  EXPECT_EQ(expect_failure(report, "pair-scale").tensor, kExpert + ".w3" + factor_);
  EXPECT_EQ(expect_failure(report, "tensor-scale").tensor, kExpert + ".w3" + factor_);
}

TEST_P(VerifyDamageLayouts, NanAndNegativeScaleCodes) {
  for (const unsigned code : {0x7Fu, 0xFFu, 0xB8u}) {
    MemoryCheckpoint damaged = output_;
    MiniTensor& scales = damaged.tensor(kExpert + ".w3.weight_scale");
    scales.data[77] = std::byte(code);
    const VerifyFailure failure = expect_failure(verify("source", damaged), "block-scale");
    EXPECT_EQ(failure.tensor, kExpert + ".w3.weight_scale");
    EXPECT_EQ(failure.byte, 77u);
    EXPECT_NE(failure.message.find("NaN or negative"), std::string::npos) << failure.message;
  }
}

TEST_P(VerifyDamageLayouts, TensorScaleThatIsNoPositiveNumber) {
  for (const float value : {0.0f, -1.0f, std::numeric_limits<float>::infinity(), std::nanf("")}) {
    MemoryCheckpoint damaged = output_;
    set_float(damaged.tensor(kExpert + ".w2" + factor_), value);
    EXPECT_EQ(expect_failure(verify("source", damaged), "tensor-scale").tensor, kExpert + ".w2" + factor_);
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, VerifyDamageLayouts,
                         ::testing::Values("cast_modelopt", "cast_ct", "requant_modelopt", "requant_ct"),
                         [](const auto& layout) { return std::string(layout.param); });

TEST(VerifyDamage, OneMantissaBitOfABlockScaleInACast) {
  MemoryCheckpoint output = cast_modelopt();
  MiniTensor& scales = output.tensor(kExpert + ".w1.weight_scale");
  scales.data[5] ^= std::byte{1};
  const VerifyFailure failure = expect_failure(verify("source", output), "block-scale");
  EXPECT_EQ(failure.byte, 5u);
}

TEST(VerifyDamage, SwizzledScalesAreCalledThat) {
  MemoryCheckpoint output = cast_modelopt();
  MiniTensor& scales = output.tensor(kExpert + ".w1.weight_scale");
  const std::vector<std::byte> linear = scales.data;
  const std::size_t rows = scales.shape[0], columns = scales.shape[1];
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) scales.data[c * rows + r] = linear[r * columns + c];
  }
  const VerifyFailure failure = expect_failure(verify("source", output), "block-scale-order");
  EXPECT_EQ(failure.tensor, kExpert + ".w1.weight_scale");
}

TEST(VerifyDamage, NibbleOrderIsCalledThatInACast) {
  MemoryCheckpoint output = convert_by_golden("source", "cast_ct");
  for (std::byte& byte : output.tensor(kExpert + ".w1.weight_packed").data) byte = byte << 4 | byte >> 4;
  EXPECT_EQ(expect_failure(verify("source", output), "nibble-order").tensor, kExpert + ".w1.weight_packed");
}

TEST(VerifyDamage, NegativeZerosMayBecomeZeros) {
  MemoryCheckpoint output = convert_by_golden("source", "cast_ct");
  std::uint64_t changed = 0;
  for (std::byte& byte : output.tensor(kExpert + ".w2.weight_packed").data) {
    if ((byte & std::byte{0x0F}) != std::byte{0x08}) continue;
    byte &= std::byte{0xF0};
    ++changed;
  }
  ASSERT_GT(changed, 0u);
  const VerifyReport report = verify("source", output);
  EXPECT_EQ(report.verdict, Verdict::kLossless) << messages(report);
  EXPECT_EQ(report.total.normalised_negative_zeros, changed);
}

TEST(VerifyDamage, FlippedBitInATrunkTensor) {
  MemoryCheckpoint output = cast_modelopt();
  MiniTensor& tensor = output.tensor(kTrunk);
  tensor.data[1234] ^= std::byte{0x10};
  const VerifyFailure failure = expect_failure(verify("source", output), "copy");
  EXPECT_EQ(failure.tensor, kTrunk);
  EXPECT_EQ(failure.byte, 1234u);
  EXPECT_EQ(failure.row, 1234 / (2 * tensor.shape[1]));
  EXPECT_EQ(failure.file, kShard);
}

TEST(VerifyDamage, RowsOfLessThanAByteAreLocatedByTheirByte) {
  const MiniTensor narrow{"F4", {4, 1}, {std::byte{0x12}, std::byte{0x34}}};
  MemoryCheckpoint source = load_checkpoint("source"), output = cast_modelopt();
  source.files.at(kShard)["narrow"] = output.files.at(kShard)["narrow"] = narrow;
  output.tensor("narrow").data[1] = std::byte{0x35};
  source.index_all();
  output.index_all();
  const TempDir folder;
  source.write(folder / "source");
  output.write(folder / "out");
  const VerifyFailure failure = expect_failure(verify_folders(folder / "source", folder / "out"), "copy");
  EXPECT_EQ(failure.tensor, "narrow");
  EXPECT_EQ(failure.byte, 1u);
  EXPECT_FALSE(failure.row.has_value());
}

TEST(VerifyDamage, WrongFp8ValueAndScale) {
  MemoryCheckpoint output = convert_mixed();
  MiniTensor& weight = output.tensor(kTrunk);
  weight.data[500] ^= std::byte{0x20};
  const VerifyFailure value = expect_failure(verify("source", output), "fp8");
  EXPECT_EQ(value.tensor, kTrunk);
  EXPECT_EQ(value.byte, 500u);

  output = convert_mixed();
  set_float(output.tensor(kTrunk + "_scale"), std::nanf(""));
  EXPECT_EQ(expect_failure(verify("source", output), "fp8-scale").tensor, kTrunk + "_scale");
}

TEST(VerifyDamage, Fp8NanIsFound) {
  MemoryCheckpoint output = convert_mixed();
  output.tensor(kTrunk).data[7] = std::byte{0x7F};
  EXPECT_EQ(expect_failure(verify("source", output), "fp8").byte, 7u);
}

TEST(VerifyDamage, MissingTensor) {
  for (const std::string& name :
       {kTrunk, kExpert + ".w1.weight", kExpert + ".w1.weight_scale", kExpert + ".w1.weight_scale_2"}) {
    MemoryCheckpoint output = cast_modelopt();
    output.files.at(kShard).erase(name);
    output.index_all();
    const VerifyReport report = verify("source", output);
    ASSERT_EQ(report.verdict, Verdict::kFailed) << name;
    const VerifyFailure* failure = find_failure(report, "missing-tensor");
    ASSERT_NE(failure, nullptr) << messages(report);
    EXPECT_EQ(failure->tensor, name);
  }
}

TEST(VerifyDamage, MissingTileScales) {
  MemoryCheckpoint output = convert_mixed();
  output.files.at(kShard).erase(kTrunk + "_scale");
  output.index_all();
  EXPECT_EQ(expect_failure(verify("source", output), "missing-tensor").tensor, kTrunk + "_scale");
}

TEST(VerifyDamage, MissingInputScaleOfOneModule) {
  MemoryCheckpoint output = cast_modelopt();
  output.files.at(kShard).erase(kExpert + ".w2.input_scale");
  output.index_all();
  expect_failure(verify("source", output), "input-scale");
}

TEST(VerifyDamage, ExtraTensor) {
  for (const std::string name :
       {"language_model.model.layers.1.self_attn.q_proj.bias", "stray",
        "language_model.model.layers.1.block_sparse_moe.experts.77.w1.weight",
        "language_model.model.layers.1.block_sparse_moe.experts.1.w1.weight_packed"}) {
    MemoryCheckpoint output = cast_modelopt();
    output.files.at(kShard)[name] = output.tensor(kExpert + ".w1.weight");
    output.index_all();
    const VerifyReport report = verify("source", output);
    ASSERT_EQ(report.verdict, Verdict::kFailed) << name;
    EXPECT_NE(messages(report).find(name), std::string::npos) << messages(report);
  }
}

TEST(VerifyDamage, WrongTypeOrShape) {
  MemoryCheckpoint output = cast_modelopt();
  output.tensor(kExpert + ".w1.weight_scale").dtype = "U8";
  VerifyFailure failure = expect_failure(verify("source", output), "shape");
  EXPECT_EQ(failure.tensor, kExpert + ".w1.weight_scale");
  EXPECT_EQ(failure.expected.substr(0, 7), "F8_E4M3");
  EXPECT_EQ(failure.found.substr(0, 2), "U8");

  output = cast_modelopt();
  std::swap(output.tensor(kTrunk).shape[0], output.tensor(kTrunk).shape[1]);
  failure = expect_failure(verify("source", output), "shape");
  EXPECT_EQ(failure.tensor, kTrunk);
}

TEST(VerifyDamage, ExpertsOfTwoFormats) {
  MemoryCheckpoint output = cast_modelopt();
  const MemoryCheckpoint ct = convert_by_golden("source", "cast_ct");
  MiniTensors& file = output.files.at(kShard);
  for (const char* part : {".weight", ".weight_scale_2", ".input_scale"}) file.erase(kExpert + ".w2" + part);
  for (const char* part : {".weight_packed", ".weight_global_scale"}) {
    file[kExpert + ".w2" + part] = ct.files.at(kShard).at(kExpert + ".w2" + part);
  }
  output.index_all();
  EXPECT_EQ(expect_failure(verify("source", output), "format").tensor, kExpert + ".w2.weight_packed");
}

class VerifyDamageOnDisk : public ::testing::Test {
 protected:
  VerifyDamageOnDisk() { cast_modelopt().write(folder_.path()); }
  VerifyReport report() const { return verify_folders(golden("source"), folder_.path()); }
  TempDir folder_;
};

TEST_F(VerifyDamageOnDisk, TruncatedFile) {
  const auto path = folder_ / kShard;
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 100);
  const VerifyFailure failure = expect_failure(report(), "header");
  EXPECT_EQ(failure.file, kShard);
}

TEST_F(VerifyDamageOnDisk, EmptyFile) {
  std::filesystem::resize_file(folder_ / kShard, 0);
  EXPECT_EQ(expect_failure(report(), "header").file, kShard);
}

TEST_F(VerifyDamageOnDisk, MissingFile) {
  std::filesystem::remove(folder_ / kShard);
  EXPECT_EQ(expect_failure(report(), "missing-file").file, kShard);
}

TEST_F(VerifyDamageOnDisk, FileThatTheIndexDoesNotKnow) {
  std::filesystem::copy_file(folder_ / kShard, folder_ / "stray.safetensors");
  EXPECT_EQ(expect_failure(report(), "extra-file").file, "stray.safetensors");
}

TEST_F(VerifyDamageOnDisk, MissingIndex) {
  std::filesystem::remove(folder_ / "model.safetensors.index.json");
  expect_failure(report(), "index");
}

TEST_F(VerifyDamageOnDisk, Checksums) {
  const auto line = [this](const std::string& name) {
    std::ifstream stream(folder_ / name, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
    return sha256_hex(std::as_bytes(std::span(bytes))) + "  " + name + "\n";
  };
  const std::string good = line(kShard) + line("config.json");
  std::ofstream(folder_ / "SHA256SUMS") << good;
  EXPECT_EQ(report().verdict, Verdict::kLossless) << messages(report());
  EXPECT_TRUE(report().checksums_compared);

  for (const std::string& name : {kShard, std::string("config.json")}) {
    std::string bad = good;
    char& digit = bad[bad.find(name) - 3];
    digit = digit == '0' ? '1' : '0';
    std::ofstream(folder_ / "SHA256SUMS") << bad;
    EXPECT_EQ(expect_failure(report(), "checksum").file, name);
  }
  for (const std::string& bad : {std::string("nonsense\n"), std::string(64, '0') + "  ../escape\n"}) {
    std::ofstream(folder_ / "SHA256SUMS") << good << bad;
    EXPECT_EQ(expect_failure(report(), "checksum").file, "SHA256SUMS");
  }
  std::ofstream(folder_ / "SHA256SUMS") << good << std::string(64, '0') << "  absent.bin\n";
  EXPECT_EQ(expect_failure(report(), "checksum").file, "absent.bin");
}

TEST(VerifyDamage, IndexThatDisagrees) {
  MemoryCheckpoint output = cast_modelopt();
  output.weight_map[kTrunk] = "model-00001-of-000003.safetensors";
  EXPECT_EQ(expect_failure(verify("source", output), "index").tensor, kTrunk);

  output = cast_modelopt();
  output.weight_map.erase(kTrunk);
  EXPECT_EQ(expect_failure(verify("source", output), "index").tensor, kTrunk);

  output = cast_modelopt();
  output.weight_map["ghost"] = kShard;
  EXPECT_EQ(expect_failure(verify("source", output), "index").tensor, "ghost");

  output = cast_modelopt();
  output.total_size += 1;
  EXPECT_NE(expect_failure(verify("source", output), "index").message.find("total_size"), std::string::npos);
}

TEST(VerifyDamage, LeftOverMxfp4Manifest) {
  MemoryCheckpoint output = cast_modelopt();
  output.json["config.json"]["text_config"]["quantization_config"] =
      load_checkpoint("source").json["config.json"]["text_config"]["quantization_config"];
  const VerifyReport report = verify("source", output);
  EXPECT_EQ(expect_failure(report, "manifest").file, "config.json");
  EXPECT_NE(messages(report).find("mxfp4"), std::string::npos);
  EXPECT_NE(messages(report).find("text_config.quantization_config"), std::string::npos);
}

TEST(VerifyDamage, MxfpMentionedAnywhere) {
  MemoryCheckpoint output = cast_modelopt();
  output.json["hf_quant_config.json"]["producer"]["note"] = "from MXFP4";
  EXPECT_EQ(expect_failure(verify("source", output), "manifest").file, "hf_quant_config.json");
}

TEST(VerifyDamage, ManifestThatContradictsTheTensors) {
  MemoryCheckpoint output = cast_modelopt();
  for (auto& [file, tensors] : output.files) {
    std::erase_if(tensors, [](const auto& entry) { return entry.first.ends_with(".input_scale"); });
  }
  output.index_all();
  EXPECT_NE(expect_failure(verify("source", output), "manifest").message.find("input scale"),
            std::string::npos);

  output = cast_modelopt();
  output.json["config.json"] = convert_by_golden("source", "cast_ct").json["config.json"];
  expect_failure(verify("source", output), "manifest");

  output = cast_modelopt();
  output.json["hf_quant_config.json"]["quantization"].erase("group_size");
  EXPECT_EQ(expect_failure(verify("source", output), "manifest").file, "hf_quant_config.json");

  output = convert_mixed();
  output.json = cast_modelopt().json;
  EXPECT_NE(expect_failure(verify("source", output), "manifest").message.find("FP8"), std::string::npos);
}

TEST(VerifyDamage, ExclusionListThatHidesTheExperts) {
  MemoryCheckpoint output = convert_by_golden("source", "cast_ct");
  output.json["config.json"]["quantization_config"]["ignore"].push_back("re:.*experts.*");
  EXPECT_EQ(expect_failure(verify("source", output), "manifest").file, "config.json");
}

// A list made for one engine may leave out a layer that this engine never quantises.
TEST(VerifyDamage, AnExcludeListThatLeavesOutAFloatMatrixIsAWarning) {
  MemoryCheckpoint output = convert_by_golden("source", "cast_ct");
  nlohmann::json& ignore = output.json["config.json"]["quantization_config"]["ignore"];
  const std::size_t entries = ignore.size();
  std::erase_if(ignore.get_ref<nlohmann::json::array_t&>(),
                [](const nlohmann::json& entry) { return entry == "re:.*shared_experts.*"; });
  ASSERT_EQ(ignore.size(), entries - 1);
  const VerifyReport report = verify("source", output);
  EXPECT_EQ(report.verdict, Verdict::kLossless) << messages(report);
  EXPECT_NE(messages(report).find("shared_experts"), std::string::npos) << messages(report);
}

TEST(VerifyDamage, ConfigThatIsNoJson) {
  const TempDir folder;
  cast_modelopt().write(folder.path());
  std::ofstream(folder / "config.json") << "{";
  EXPECT_EQ(expect_failure(verify_folders(golden("source"), folder.path()), "manifest").file, "config.json");
}

TEST(VerifyDamage, FailuresAreCountedBeyondTheLimit) {
  MemoryCheckpoint output = cast_modelopt();
  for (auto& [name, tensor] : output.files.at(kShard)) {
    if (name.find(".experts.") == std::string::npos) tensor.data[0] ^= std::byte{1};
  }
  VerifyOptions options;
  options.max_failures = 3;
  const VerifyReport report = verify("source", output, options);
  EXPECT_EQ(report.failures.kept.size(), 3u);
  EXPECT_GT(report.failures.count, 10u);
}

TEST(VerifyDamage, NanInTheSourceIsNotForgiven) {
  MemoryCheckpoint source = load_checkpoint("source");
  source.tensor(kExpert + ".w1.weight_scale").data[3] = std::byte{0xFF};
  const TempDir folder;
  source.write(folder / "source");
  cast_modelopt().write(folder / "out");
  const VerifyReport report = verify_folders(folder / "source", folder / "out");
  EXPECT_EQ(expect_failure(report, "source-scale").tensor, kExpert + ".w1.weight_scale");
  EXPECT_EQ(report.total.byte_ff_blocks, 1u);
}

}  // namespace
}  // namespace perigee::test
