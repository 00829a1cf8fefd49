// The trunk of a store as the model reads it: exact planes are the checkpoint's bits, rounded ones are near.
#include <gtest/gtest.h>

#include <cmath>

#include "model/tensor_reader.h"
#include "pack/packed.h"

namespace perigee {
namespace {

struct Loaded {
  WeightArena arena;
  Matrix matrix;
};

Loaded load(const std::filesystem::path& folder, const std::string& module, std::size_t rows,
            std::size_t columns) {
  Loaded loaded;
  TensorReader reader(std::make_shared<CheckpointTensors>(CheckpointTensors::of_checkpoint(folder)));
  reader.want_matrix(module, rows, columns, loaded.matrix);
  reader.read(loaded.arena, {});
  return loaded;
}

double value(const Matrix& matrix, std::size_t row, std::size_t column) {
  return double{matrix_element(matrix, row, column)} * matrix_scale(matrix, row, column) *
         matrix.global_scale;
}

// Relative error over the whole matrix, between the small model and its rounded store.
double distance(const std::string& module, std::size_t rows, std::size_t columns, WeightFormat format) {
  const Loaded exact = load(test::small_model(), module, rows, columns);
  const Loaded stored = load(test::rounded_store().path, module, rows, columns);
  EXPECT_EQ(stored.matrix.format, format) << module;
  double error = 0, source = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      const double x = value(exact.matrix, row, column);
      error += std::pow(value(stored.matrix, row, column) - x, 2);
      source += x * x;
    }
  }
  return std::sqrt(error / source);
}

TEST(PackedTrunk, IsReadByTheModelInEveryForm) {
  const K3Config c = load_config(test::small_model() / "config.json");
  const std::string layer = "language_model.model.layers.1.";
  const double head = distance("language_model.lm_head", c.vocab_size, c.hidden_size, WeightFormat::kNvfp4);
  EXPECT_GT(head, 0.05);
  EXPECT_LT(head, 0.15);
  const std::size_t width = c.kda_num_heads * c.kda_head_dim;
  const double attention = distance(layer + "self_attn.q_proj", width, c.hidden_size, WeightFormat::kFp8Tile);
  EXPECT_GT(attention, 0.01);
  EXPECT_LT(attention, 0.04);
  EXPECT_EQ(distance(layer + "block_sparse_moe.routed_expert_down_proj", c.routed_expert_hidden_size,
                     c.hidden_size, WeightFormat::kBf16),
            0);
  EXPECT_EQ(distance("language_model.model.embed_tokens", c.vocab_size, c.hidden_size, WeightFormat::kBf16),
            0);
}

}  // namespace
}  // namespace perigee
