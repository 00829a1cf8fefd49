#include "checkpoint/block_view.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "support/mini_safetensors.h"
#include "support/paths.h"
#include "support/temp_dir.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const fs::path kGoldens = test::data_folder() / "convert";
const std::string kModule = "language_model.model.layers.2.block_sparse_moe.experts.1.w3";

// A folder with one golden safetensors file and no index.
class OneFile {
 public:
  explicit OneFile(const fs::path& file) { fs::copy_file(file, folder_ / "model.safetensors"); }
  const fs::path& path() const { return folder_.path(); }

 private:
  test::TempDir folder_;
};

const test::MiniTensors& decoded() {
  static const test::MiniTensors kDecoded = test::read_safetensors(kGoldens / "decoded.safetensors");
  return kDecoded;
}

// Every value of the module, row by row, equals what compressed-tensors decoded, sign of zero included.
void expect_decoded(const fs::path& checkpoint, const std::string& module, BlockKind kind) {
  const std::vector<float> expected = decoded().at(module + ".f32").as<float>();
  const std::uint64_t columns = decoded().at(module + ".f32").shape[1];
  for (std::uint64_t row = 0; row < expected.size() / columns; row += 7) {
    const BlockView view = view_blocks(checkpoint, {module, row, 0, 1000});
    ASSERT_EQ(view.kind, kind);
    ASSERT_EQ(view.columns, columns);
    std::uint64_t column = 0;
    for (const Block& block : view.blocks) {
      ASSERT_EQ(block.first_column, column);
      for (const double value : block.values) {
        const double right = expected[row * columns + column];
        ASSERT_EQ(value, right) << "row " << row << " column " << column;
        ASSERT_EQ(std::signbit(value), std::signbit(right)) << "row " << row << " column " << column;
        ++column;
      }
    }
    ASSERT_EQ(column, columns);
  }
}

TEST(BlockView, DecodesMxfp4AsCompressedTensorsDoes) {
  for (const char* projection : {"w1", "w2", "w3"}) {
    for (const int expert : {1, 3, 5}) {
      expect_decoded(
          kGoldens / "source",
          fmt::format("language_model.model.layers.2.block_sparse_moe.experts.{}.{}", expert, projection),
          BlockKind::kMxfp4);
    }
  }
}

TEST(BlockView, DecodesTheCompressedTensorsLayoutToTheSameValues) {
  const OneFile checkpoint(kGoldens / "cast_ct" / "experts.safetensors");
  expect_decoded(checkpoint.path(), kModule, BlockKind::kNvfp4);
  const BlockView view = view_blocks(checkpoint.path(), {kModule});
  EXPECT_TRUE(view.tensor_scale_divides);
  EXPECT_EQ(view.tensor_scale, std::ldexp(1.0f, 14));
}

TEST(BlockView, DecodesTheModelOptLayoutToTheSameValues) {
  const OneFile checkpoint(kGoldens / "cast_modelopt" / "experts.safetensors");
  const std::vector<float> expected = decoded().at(kModule + ".f32").as<float>();
  const BlockView view = view_blocks(checkpoint.path(), {kModule, 0, 0, 4});
  EXPECT_FALSE(view.tensor_scale_divides);
  EXPECT_EQ(view.tensor_scale, std::ldexp(1.0f, -14));
  ASSERT_EQ(view.blocks.size(), 4u);
  for (const Block& block : view.blocks) {
    for (std::size_t i = 0; i < block.values.size(); ++i) {
      EXPECT_EQ(block.values[i], expected[block.first_column + i]);  // ModelOpt writes +0 for -0
    }
  }
}

TEST(BlockView, ShowsCodesAndScaleAsTheyLieInTheFile) {
  const test::MiniTensors tensors = test::read_safetensors_folder(kGoldens / "source");
  const std::vector<std::byte>& packed = tensors.at(kModule + ".weight_packed").data;
  const std::vector<std::byte>& scales = tensors.at(kModule + ".weight_scale").data;
  const BlockView view = view_blocks(kGoldens / "source", {kModule + ".weight_packed", 3, 1, 1});
  ASSERT_EQ(view.blocks.size(), 1u);
  const Block& block = view.blocks[0];
  EXPECT_EQ(block.first_column, 32u);
  EXPECT_EQ(block.scale_code, static_cast<std::uint8_t>(scales[3 * 2 + 1]));
  EXPECT_EQ(block.scale, std::ldexp(1.0, block.scale_code - 127));
  for (std::size_t i = 0; i < 32; ++i) {
    const auto pair = static_cast<unsigned>(packed[3 * 32 + 16 + i / 2]);
    EXPECT_EQ(block.codes[i], i % 2 == 0 ? pair & 15 : pair >> 4);
  }
}

TEST(BlockView, ShowsFp8BlocksWithTheScaleOfTheirTile) {
  const OneFile checkpoint(kGoldens / "mixed_modelopt" / "attention.safetensors");
  const std::string module = "language_model.model.layers.0.self_attn.q_proj";
  const test::MiniTensors mixed =
      test::read_safetensors(kGoldens / "mixed_modelopt" / "attention.safetensors");
  const test::MiniTensors source = test::read_safetensors_folder(kGoldens / "source");
  const std::vector<float> scales = mixed.at(module + ".weight_scale").as<float>();
  const std::vector<std::uint16_t> original = source.at(module + ".weight").as<std::uint16_t>();
  const BlockView view = view_blocks(checkpoint.path(), {module, 5, 0, 2});
  ASSERT_EQ(view.kind, BlockKind::kFp8);
  ASSERT_EQ(view.blocks.size(), 2u);
  EXPECT_EQ(view.blocks[0].values.size(), 128u);
  EXPECT_EQ(view.blocks[1].values.size(), 32u);  // 160 columns
  for (const Block& block : view.blocks) {
    EXPECT_EQ(block.scale, scales[block.group]);
    for (std::size_t i = 0; i < block.values.size(); ++i) {
      const std::uint32_t bits = static_cast<std::uint32_t>(original[5 * 160 + block.first_column + i]) << 16;
      float right = 0;
      std::memcpy(&right, &bits, sizeof right);
      // E4M3 keeps three mantissa bits; the smallest step of a tile is 2^-9 of its scale.
      EXPECT_NEAR(block.values[i], right, std::fabs(right) / 14 + block.scale / 512);
    }
  }
}

TEST(BlockView, ShowsPlainTensorsAsTheyAre) {
  const test::MiniTensors source = test::read_safetensors_folder(kGoldens / "source");
  const std::string name = "language_model.model.layers.1.self_attn.A_log";
  const std::vector<float> expected = source.at(name).as<float>();
  const BlockView view = view_blocks(kGoldens / "source", {name});
  EXPECT_EQ(view.kind, BlockKind::kPlain);
  EXPECT_EQ(view.rows, 1u);
  ASSERT_EQ(view.blocks.size(), 1u);
  EXPECT_THAT(view.blocks[0].values, ::testing::ElementsAreArray(expected));
}

TEST(BlockView, TakesAModuleForItsWeight) {
  const BlockView view =
      view_blocks(kGoldens / "source", {"language_model.model.layers.1.self_attn.q_proj", 2, 1, 1});
  EXPECT_EQ(view.tensor, "language_model.model.layers.1.self_attn.q_proj.weight");
  EXPECT_EQ(view.kind, BlockKind::kPlain);
  EXPECT_EQ(view.blocks[0].first_column, 16u);
}

TEST(BlockView, ShowsATensorScaleAsANumber) {
  const OneFile checkpoint(kGoldens / "cast_modelopt" / "experts.safetensors");
  const BlockView view = view_blocks(checkpoint.path(), {kModule + ".weight_scale_2"});
  EXPECT_EQ(view.kind, BlockKind::kPlain);
  EXPECT_THAT(view.blocks[0].values, ::testing::ElementsAre(std::ldexp(1.0, -14)));
}

struct BadRequest {
  const char* what;
  BlockRequest request;
  ErrorCode code;
  const char* says;
};

TEST(BlockView, RefusesWhatIsNotThereAndSaysWhatIs) {
  const BadRequest table[] = {
      {"row", {kModule, 96, 0, 1}, ErrorCode::kUsage, "valid rows are 0 to 95"},
      {"group", {kModule, 0, 2, 1}, ErrorCode::kUsage, "valid groups of 32 are 0 to 1"},
      {"count", {kModule, 0, 0, 0}, ErrorCode::kUsage, "--count must be at least 1"},
      {"huge row", {kModule, UINT64_MAX, 0, 1}, ErrorCode::kUsage, "valid rows are 0 to 95"},
      {"huge group", {kModule, 0, UINT64_MAX, 1}, ErrorCode::kUsage, "valid groups"},
      {"name", {"no.such.tensor", 0, 0, 1}, ErrorCode::kNotFound, "no.such.tensor"},
      {"part of a name", {"experts.1.w3", 0, 0, 1}, ErrorCode::kNotFound, "similar names: language_model"},
      {"empty module", {"language_model.model.layers.1", 0, 0, 1}, ErrorCode::kNotFound, "similar names"},
  };
  for (const BadRequest& bad : table) {
    SCOPED_TRACE(bad.what);
    try {
      view_blocks(kGoldens / "source", bad.request);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), bad.code);
      EXPECT_THAT(error.what(), HasSubstr(bad.says));
    }
  }
}

TEST(BlockView, LeavesOutWhatLiesBeyondTheRow) {
  EXPECT_EQ(view_blocks(kGoldens / "source", {kModule, 0, 1, UINT64_MAX}).blocks.size(), 1u);
}

// One tensor file made by hand.
void write_checkpoint(const fs::path& folder, std::vector<TensorInfo> tensors) {
  const std::uint64_t bytes = assign_offsets(tensors);
  std::ofstream file(folder / "model.safetensors", std::ios::binary);
  file << serialize_safetensors_header(tensors, {}) << std::string(bytes, '\0');
}

TEST(BlockView, RefusesScalesThatDoNotBelongToTheirWeight) {
  const test::TempDir folder;
  write_checkpoint(folder.path(), {{kModule + ".weight_packed", DType::kU8, {4, 32}, 0, 0},
                                   {kModule + ".weight_scale", DType::kU8, {4, 1}, 0, 0}});
  try {
    view_blocks(folder.path(), {kModule});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    EXPECT_THAT(error.what(), HasSubstr("does not go with"));
  }
}

TEST(BlockView, RefusesAnEmptyTensor) {
  const test::TempDir folder;
  write_checkpoint(folder.path(), {{"language_model.model.norm.weight", DType::kBF16, {0}, 0, 0}});
  EXPECT_THROW(view_blocks(folder.path(), {"language_model.model.norm.weight"}), Error);
}

}  // namespace
}  // namespace perigee
