// That it does not matter in how many batches, and so with how many threads, tensors are read.
#include "model/tensor_reader.h"

#include <gtest/gtest.h>

#include "support/mini_model.h"
#include "support/mini_safetensors.h"

namespace perigee {
namespace {

struct SeenTensor {
  std::string name;
  std::vector<std::byte> bytes;
  bool operator==(const SeenTensor&) const = default;
};

struct Reading {
  std::vector<SeenTensor> seen;
  std::vector<std::uint64_t> progress;
};

// Some tensors of the small model.
Reading read_in_batches_of(std::uint64_t batch_bytes) {
  const auto tensors =
      std::make_shared<CheckpointTensors>(CheckpointTensors::of_checkpoint(test::mini_model()));
  const K3Config config = load_config(test::mini_model() / "config.json");
  TensorReader reader(tensors);
  Matrix head, embedding;
  Vector norm;
  reader.want_matrix("language_model.lm_head", config.vocab_size, config.hidden_size, head);
  reader.want_vector("language_model.model.norm.weight", {{config.hidden_size}}, norm);
  reader.want_matrix("language_model.model.embed_tokens", config.vocab_size, config.hidden_size, embedding);
  Reading reading;
  WeightArena arena;
  reader.read(
      arena, [&](std::uint64_t done, std::uint64_t) { reading.progress.push_back(done); },
      [&](const TensorInfo& tensor, std::span<const std::byte> bytes) {
        reading.seen.push_back({tensor.name, {bytes.begin(), bytes.end()}});
      },
      batch_bytes);
  EXPECT_EQ(reading.progress.back(), reader.wanted_bytes());
  EXPECT_EQ(arena.bytes() % 64, 0u);
  for (const Matrix* matrix : {&head, &embedding}) EXPECT_NE(matrix->values, nullptr);
  return reading;
}

TEST(TensorReader, GivesTheSameInAnyBatches) {
  const Reading whole = read_in_batches_of(TensorReader::kBatchBytes);
  ASSERT_EQ(whole.seen.size(), 3u);
  const test::MiniTensors expected = test::read_safetensors_folder(test::mini_model());
  for (const SeenTensor& tensor : whole.seen) EXPECT_EQ(tensor.bytes, expected.at(tensor.name).data);
  for (const std::uint64_t bytes : {0, 1, 1000, 100'000}) {
    const Reading batches = read_in_batches_of(bytes);
    EXPECT_EQ(batches.seen, whole.seen) << bytes;
    EXPECT_EQ(batches.progress, whole.progress) << bytes;
  }
}

}  // namespace
}  // namespace perigee
