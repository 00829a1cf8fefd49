// The verifier on what ModelOpt, compressed-tensors and llm-compressor made of the golden checkpoints:
// verdicts, and every number against the values that were computed from the libraries' own output.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "base/hash.h"
#include "fixture.h"
#include "verify/report.h"

namespace perigee::test {
namespace {

using nlohmann::json;

std::string module_name(const VerifiedModule& module) {
  return expert_module_name(static_cast<std::uint64_t>(module.layer),
                            static_cast<std::uint64_t>(module.expert), module.projection);
}

void expect_relative(double found, double expected, double tolerance, const std::string& what) {
  EXPECT_LE(std::abs(found - expected), tolerance * std::abs(expected))
      << what << ": " << found << " vs " << expected;
}

// Facts of the source that do not depend on how it was converted.
void expect_source_facts(const VerifyReport& report, const json& modules) {
  ASSERT_EQ(report.modules.size(), modules.size());
  for (std::size_t i = 0; i < report.modules.size(); ++i) {
    const VerifiedModule& found = report.modules[i];
    const json& wanted = modules.at(module_name(found));
    EXPECT_EQ(found.blocks, wanted.at("blocks32")) << module_name(found);
    EXPECT_EQ(found.zero_blocks, wanted.at("zero_blocks32")) << module_name(found);
    EXPECT_EQ(found.source_negative_zeros, wanted.at("neg_zero_nibbles")) << module_name(found);
    EXPECT_EQ(report.spans[i].marlin_unsafe_blocks16, wanted.at("marlin_unsafe_blocks16"))
        << module_name(found);
    EXPECT_EQ(report.spans[i].beyond, wanted.at("overspan_blocks32")) << module_name(found);
    if (found.max_exponent()) {
      EXPECT_EQ(*found.max_exponent(), wanted.at("k_max")) << module_name(found);
      EXPECT_EQ(*found.min_exponent(), wanted.at("k_min")) << module_name(found);
    }
    for (const auto& [distance, blocks] : wanted.at("active_blocks32_by_d").items()) {
      const std::size_t d = std::stoul(distance);
      if (d > 17) continue;
      EXPECT_EQ(report.spans[i].active_by_distance[d], blocks) << module_name(found) << " d " << d;
    }
  }
}

TEST(VerifyGolden, ModelOptCastIsLosslessButForTheSignOfZero) {
  const json wanted = expected_values().at("checkpoints").at("source");
  const VerifyReport report = verify("source", convert_by_golden("source", "cast_modelopt"));
  ASSERT_EQ(report.verdict, Verdict::kLossless) << messages(report);
  expect_source_facts(report, wanted.at("modules"));
  EXPECT_EQ(report.total.normalised_negative_zeros, wanted.at("counts").at("neg_zero_nibbles"));
  EXPECT_EQ(report.total.span.marlin_unsafe_blocks16, wanted.at("counts").at("marlin_unsafe_blocks16"));
  EXPECT_EQ(report.total.equal_blocks16, 2 * wanted.at("counts").at("blocks32").get<std::uint64_t>());
  EXPECT_EQ(report.total.changed_blocks16, 0u);
  EXPECT_EQ(report.total.input_scales, report.modules.size());
  EXPECT_EQ(report.output_format, ExpertFormat::kNvfp4ModelOpt);
  EXPECT_GT(report.total.decoded_blocks16, 0u);
  EXPECT_FALSE(report.partial());
  for (const VerifiedModule& module : report.modules) {
    EXPECT_EQ(module.tensor_scale, wanted.at("modules").at(module_name(module)).at("scale_2").get<float>());
  }
}

TEST(VerifyGolden, CompressedTensorsCastIsLosslessAndKeepsTheBytes) {
  const json wanted = expected_values().at("checkpoints").at("source");
  const VerifyReport report = verify("source", convert_by_golden("source", "cast_ct"));
  ASSERT_EQ(report.verdict, Verdict::kLossless) << messages(report);
  expect_source_facts(report, wanted.at("modules"));
  EXPECT_EQ(report.total.normalised_negative_zeros, 0u);
  EXPECT_EQ(report.total.input_scales, 0u);
  EXPECT_EQ(report.output_format, ExpertFormat::kNvfp4CompressedTensors);
}

TEST(VerifyGolden, BothReadingsOfZeroBlocksAreLossless) {
  const json wanted = expected_values().at("checkpoints").at("source_corner");
  for (const char* experts : {"corner_modelopt", "corner_ct"}) {
    const VerifyReport report = verify("source_corner", convert_by_golden("source_corner", experts));
    ASSERT_EQ(report.verdict, Verdict::kLossless) << experts << "\n" << messages(report);
    expect_source_facts(report, wanted.at("modules"));
    EXPECT_EQ(report.total.zero_blocks, wanted.at("counts").at("zero_blocks32"));
  }
}

void expect_requantisation(const std::string& experts, const char* key, bool with_cosine) {
  const json wanted = expected_values().at("checkpoints").at("source").at("modules");
  const VerifyReport report = verify("source", convert_by_golden("source", experts));
  ASSERT_EQ(report.verdict, Verdict::kLossy) << messages(report);
  expect_source_facts(report, wanted);
  for (const VerifiedModule& module : report.modules) {
    const json& numbers = wanted.at(module_name(module)).at(key);
    const double rmse = numbers.at("rel_rmse");
    expect_relative(module.error.relative_rmse(), rmse, 1e-9, module_name(module) + " rel_rmse");
    EXPECT_EQ(module.changed_blocks16 == 0, rmse == 0) << module_name(module);
    if (with_cosine) {
      expect_relative(module.error.cosine(), numbers.at("cosine"), 1e-9, module_name(module) + " cosine");
    }
  }
}

TEST(VerifyGolden, CompressedTensorsRequantisationHasTheErrorOfTheLibrary) {
  expect_requantisation("requant_ct", "requant", true);
}

TEST(VerifyGolden, ModelOptRequantisationHasTheErrorOfTheLibrary) {
  expect_requantisation("requant_modelopt", "requant_modelopt", false);
}

TEST(VerifyGolden, SaturatedOverSpanIsLossyOnlyWhereTheSpanIsTooLarge) {
  const json wanted = expected_values().at("checkpoints").at("source_overspan").at("modules");
  const VerifyReport report =
      verify("source_overspan", convert_by_golden("source_overspan", "overspan_modelopt"));
  ASSERT_EQ(report.verdict, Verdict::kLossy) << messages(report);
  expect_source_facts(report, wanted);
  for (const VerifiedModule& module : report.modules) {
    const json& numbers = wanted.at(module_name(module)).at("modelopt");
    EXPECT_EQ(module.changed_blocks16 == 0, numbers.at("value_exact").get<bool>()) << module_name(module);
    expect_relative(module.error.max_abs_error, numbers.at("max_abs_err"), 1e-12,
                    module_name(module) + " max error");
  }
}

// The same sums from the golden tensors, element by element, in long double and with the C library's
// arithmetic.
struct PlainSums {
  long double error = 0, source = 0;
};
double plain_e4m3(unsigned code) {
  const double magnitude =
      (code & 0x78) == 0 ? std::ldexp(code & 7, -9) : std::ldexp(8 + (code & 7), int(code >> 3 & 15) - 10);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}
PlainSums plain_fp8_sums(const MiniTensor& source, const MiniTensor& weight, const MiniTensor& scales) {
  PlainSums sums;
  const std::vector<float> tile_scales = scales.as<float>();
  const std::uint64_t rows = weight.shape.at(0), columns = weight.shape.at(1), tiles = scales.shape.at(2);
  for (std::uint64_t r = 0; r < rows; ++r) {
    for (std::uint64_t c = 0; c < columns; ++c) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, source.data.data() + 2 * (r * columns + c), 2);
      const std::uint32_t wide = std::uint32_t{bits} << 16;
      float value = 0;
      std::memcpy(&value, &wide, 4);
      const long double found =
          static_cast<long double>(plain_e4m3(std::to_integer<unsigned>(weight.data[r * columns + c]))) *
          tile_scales.at(r / 128 * tiles + c / 128);
      sums.error += (value - found) * (value - found);
      sums.source += static_cast<long double>(value) * value;
    }
  }
  return sums;
}

TEST(VerifyGolden, MixedCheckpointHasLosslessExpertsAndRoundedAttention) {
  const MemoryCheckpoint output = convert_mixed();
  const VerifyReport report = verify("source", output);
  ASSERT_EQ(report.verdict, Verdict::kLossy) << messages(report);
  EXPECT_EQ(report.total.changed_modules, 0u);
  EXPECT_EQ(2 * report.fp8_tensors, expected_values().at("mixed_attention").size());
  const MiniTensors source = read_safetensors_folder(golden("source"));
  const MiniTensors attention = read_safetensors(golden("mixed_modelopt") / "attention.safetensors");
  PlainSums all;
  for (const ShardVerification& shard : report.shards) {
    for (const VerifiedFp8& tensor : shard.fp8) {
      const PlainSums sums = plain_fp8_sums(source.at(tensor.tensor), attention.at(tensor.tensor),
                                            attention.at(tensor.tensor + "_scale"));
      expect_relative(tensor.error.relative_rmse(), static_cast<double>(std::sqrt(sums.error / sums.source)),
                      1e-9, tensor.tensor);
      all.error += sums.error, all.source += sums.source;
    }
  }
  expect_relative(report.fp8.relative_rmse(), static_cast<double>(std::sqrt(all.error / all.source)), 1e-9,
                  "overall");
  EXPECT_GT(report.fp8.relative_rmse(), 0.01);
}

TEST(VerifyGolden, TileScalesMayBeStoredAsAPlainMatrix) {
  MemoryCheckpoint output = convert_mixed();
  for (auto& [file, tensors] : output.files) {
    for (auto& [name, tensor] : tensors) {
      if (name.ends_with(".weight_scale") && tensor.shape.size() == 4)
        tensor.shape = {tensor.shape[0], tensor.shape[2]};
    }
  }
  EXPECT_EQ(verify("source", output).verdict, Verdict::kLossy);
}

TEST(VerifyGolden, ScalarsMayHaveOneDimensionOrNone) {
  MemoryCheckpoint modelopt = convert_by_golden("source", "cast_modelopt");
  MemoryCheckpoint ct = convert_by_golden("source", "cast_ct");
  for (MemoryCheckpoint* output : {&modelopt, &ct}) {
    for (auto& [file, tensors] : output->files) {
      for (auto& [name, tensor] : tensors) {
        const bool is_scalar =
            name.ends_with("_scale_2") || name.ends_with("input_scale") || name.ends_with("global_scale");
        if (is_scalar)
          tensor.shape = tensor.shape.empty() ? std::vector<std::uint64_t>{1} : std::vector<std::uint64_t>{};
      }
    }
    const VerifyReport report = verify("source", *output);
    EXPECT_EQ(report.verdict, Verdict::kLossless) << messages(report);
  }
}

// Verifies one golden conversion as the conversion of another.
VerifyReport verify_between(const std::string& from, const std::string& to) {
  const TempDir folder;
  convert_by_golden("source", from).write(folder / "from");
  convert_by_golden("source", to).write(folder / "to");
  return verify_folders(folder / "from", folder / "to");
}

TEST(VerifyGolden, LayoutsOfTheSameCastAreEqualInBothDirections) {
  for (const auto& [from, to] : {std::pair{"cast_modelopt", "cast_ct"}, {"cast_ct", "cast_modelopt"}}) {
    const VerifyReport report = verify_between(from, to);
    EXPECT_EQ(report.verdict, Verdict::kLossless) << from << " -> " << to << "\n" << messages(report);
    EXPECT_EQ(report.modules.size(), 36u);
    EXPECT_EQ(report.total.changed_blocks16, 0u);
  }
}

TEST(VerifyGolden, TheWayBackToMxfp4IsLossless) {
  const TempDir folder;
  convert_by_golden("source", "cast_ct").write(folder / "from");
  const VerifyReport report = verify_folders(folder / "from", golden("source"));
  EXPECT_EQ(report.verdict, Verdict::kLossless) << messages(report);
  EXPECT_EQ(report.output_format, ExpertFormat::kMxfp4);
  EXPECT_EQ(report.modules.size(), 36u);
}

TEST(VerifyGolden, ACheckpointIsItsOwnCopy) {
  const VerifyReport report = verify_folders(golden("source"), golden("source"));
  EXPECT_EQ(report.verdict, Verdict::kLossless) << messages(report);
}

std::string hash_of(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  return sha256_hex(std::as_bytes(std::span(bytes)));
}

TEST(VerifyGolden, FilesAreHashedWholeWhateverTheOrderOfTensors) {
  for (const bool types_apart : {false, true}) {
    MemoryCheckpoint output = convert_mixed();
    output.types_apart = types_apart;
    const TempDir folder;
    output.write(folder.path());
    const VerifyReport report = verify_folders(golden("source"), folder.path());
    EXPECT_EQ(report.verdict, Verdict::kLossy) << messages(report);
    ASSERT_EQ(report.shards.size(), 3u);
    for (const ShardVerification& shard : report.shards) {
      EXPECT_EQ(shard.sha256, hash_of(folder.path() / shard.file)) << shard.file;
    }
  }
}

TEST(VerifyGolden, ShardsNeedNotCorrespond) {
  MemoryCheckpoint output = convert_by_golden("source", "cast_modelopt");
  std::map<std::string, MiniTensors> files;
  std::size_t next = 0;
  for (const auto& [file, tensors] : output.files) {
    for (const auto& [name, tensor] : tensors)
      files["part-" + std::to_string(next++ % 5) + ".safetensors"][name] = tensor;
  }
  output.files = files;
  output.index_all();
  const VerifyReport report = verify("source", output);
  EXPECT_EQ(report.verdict, Verdict::kLossless) << messages(report);
  EXPECT_EQ(report.modules.size(), 36u);
  EXPECT_FALSE(report.partial());
}

TEST(VerifyGolden, AnOutputWithoutSomeSourceShardsIsPartial) {
  MemoryCheckpoint output = convert_by_golden("source", "cast_modelopt");
  output.files.erase("model-00003-of-000003.safetensors");
  output.index_all();
  const VerifyReport report = verify("source", output);
  EXPECT_EQ(report.verdict, Verdict::kLossless) << messages(report);
  EXPECT_TRUE(report.partial());
  EXPECT_EQ(report.source_shards_absent, 1u);
  EXPECT_EQ(report.modules.size(), 18u);
}

TEST(VerifyGolden, ASampleIsTheSameEachTimeAndTakesWholeExperts) {
  const MemoryCheckpoint output = convert_by_golden("source", "cast_modelopt");
  VerifyOptions options;
  options.sample_fraction = 0.5;
  const VerifyReport first = verify("source", output, options), second = verify("source", output, options);
  EXPECT_EQ(first.verdict, Verdict::kLossless);
  EXPECT_TRUE(first.sampled);
  EXPECT_EQ(first.modules.size() % 3, 0u);
  EXPECT_GT(first.modules.size(), 0u);
  EXPECT_LT(first.modules.size(), 36u);
  ASSERT_EQ(first.modules.size(), second.modules.size());
  for (std::size_t i = 0; i < first.modules.size(); ++i)
    EXPECT_EQ(first.modules[i].expert, second.modules[i].expert);
}

TEST(VerifyGolden, OneFileCanBeCheckedUnderItsTemporaryName) {
  const TempDir folder;
  convert_by_golden("source", "cast_modelopt").write(folder.path());
  const auto temporary = folder / "model-00002-of-000003.safetensors.partial";
  std::filesystem::rename(folder / "model-00002-of-000003.safetensors", temporary);
  TensorCatalog source(golden("source"));
  OutputShard shard;
  shard.path = temporary;
  shard.name = shard.source_shard = "model-00002-of-000003.safetensors";
  const auto io = make_async_io();
  const ShardVerification result = verify_shard(*io, source, shard, {});
  EXPECT_EQ(result.verdict, Verdict::kLossless);
  EXPECT_EQ(result.modules.size(), 18u);
  EXPECT_EQ(result.sha256, hash_of(temporary));
}

TEST(VerifyGolden, ReportIsCompleteAndOneLineDescribesEachModule) {
  const VerifyReport report = verify("source", convert_by_golden("source", "requant_ct"));
  const nlohmann::ordered_json document = verify_report_json(report);
  EXPECT_EQ(document.at("verdict"), "lossy");
  EXPECT_EQ(document.at("experts").at("modules"), 36);
  EXPECT_EQ(document.at("files").size(), 3u);
  EXPECT_EQ(document.at("by_projection").size(), 3u);
  EXPECT_EQ(document.at("by_layer").size(), 2u);
  std::ostringstream lines;
  write_module_lines(report, lines);
  std::istringstream stream(lines.str());
  std::size_t count = 0;
  const json wanted = expected_values().at("checkpoints").at("source").at("modules");
  for (std::string line; std::getline(stream, line); ++count) {
    const json module = json::parse(line);
    const json& numbers = wanted.at(module.at("module").get<std::string>());
    EXPECT_EQ(module.at("active_blocks_by_distance"), numbers.at("active_blocks32_by_d"));
    EXPECT_EQ(module.at("tensor_scale").get<float>(),
              numbers.at("requant").at("weight_global_scale").get<float>());
  }
  EXPECT_EQ(count, 36u);
}

}  // namespace
}  // namespace perigee::test
