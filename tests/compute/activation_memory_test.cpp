#include "compute/activation_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "compute/tensor.h"

namespace perigee {
namespace {

constexpr std::uint64_t kMegabyte = 1 << 20;
constexpr std::size_t kWidth = 1024;

// 4 KiB a row.
Tensor tensor_of_rows(std::size_t rows) {
  return Tensor(rows, kWidth);
}

TEST(ActivationMemory, LargeTensorsLieInTheReserveAndSmallOnesDoNot) {
  const ActivationReserve reserve(kMegabyte);
  EXPECT_EQ(reserve.bytes(), kMegabyte);
  {
    const Tensor large = tensor_of_rows(32);
    EXPECT_EQ(reserve.used(), 32 * 4096U);
    const Tensor small = tensor_of_rows(1);
    EXPECT_EQ(reserve.used(), 32 * 4096U);
  }
  EXPECT_EQ(reserve.used(), 0U);
}

TEST(ActivationMemory, IsAligned) {
  const ActivationReserve reserve(kMegabyte);
  for (const std::size_t bytes : {1U, 100U, 70'000U, 70'001U, 2'000'000U}) {
    void* memory = allocate_activation(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % kActivationAlignment, 0U) << bytes;
    release_activation(memory, bytes);
  }
}

TEST(ActivationMemory, TensorsAreZeroEvenWhereOthersWereBefore) {
  const ActivationReserve reserve(kMegabyte);
  for (int i = 0; i < 3; ++i) {
    Tensor tensor = tensor_of_rows(200);
    for (float& value : tensor.values()) {
      ASSERT_EQ(value, 0.0F);
      value = 1.0F;
    }
  }
}

TEST(ActivationMemory, WhatFindsNoRoomComesFromTheHeap) {
  const ActivationReserve reserve(kMegabyte);
  const Tensor first = tensor_of_rows(200), second = tensor_of_rows(200);
  EXPECT_EQ(reserve.used(), 200 * 4096U);
  EXPECT_EQ(second[199][kWidth - 1], 0.0F);
}

TEST(ActivationMemory, WithoutAReserveTheHeapDoes) {
  const Tensor tensor = tensor_of_rows(100);
  EXPECT_EQ(tensor[99][kWidth - 1], 0.0F);
}

TEST(ActivationMemory, FreedNeighboursBecomeOneBlockInEveryOrder) {
  std::vector<std::size_t> order = {0, 1, 2, 3};
  do {
    const ActivationReserve reserve(kMegabyte);
    std::vector<std::optional<Tensor>> quarters;
    for (int i = 0; i < 4; ++i) quarters.emplace_back(tensor_of_rows(64));
    EXPECT_EQ(reserve.used(), kMegabyte);
    for (const std::size_t i : order) quarters[i].reset();
    const Tensor whole = tensor_of_rows(256);
    EXPECT_EQ(reserve.used(), kMegabyte);
  } while (std::ranges::next_permutation(order).found);
}

TEST(ActivationMemory, TensorsMayOutliveTheReserve) {
  std::optional<ActivationReserve> reserve(std::in_place, kMegabyte);
  Tensor tensor = tensor_of_rows(100);
  reserve.reset();
  tensor[99][5] = 2.0F;
  EXPECT_EQ(tensor[99][5], 2.0F);
  const ActivationReserve other(kMegabyte);
  const Tensor in_the_other = tensor_of_rows(100);  // nothing new goes where the reserve is gone
  EXPECT_EQ(other.used(), 100 * 4096U);
}

TEST(ActivationMemory, MoreThanTheMachineHasIsLeftToTheHeap) {
  const ActivationReserve reserve(std::uint64_t{1} << 60);
  EXPECT_EQ(reserve.bytes(), 0U);
  const Tensor tensor = tensor_of_rows(100);
  EXPECT_EQ(tensor[99][0], 0.0F);
}

TEST(ActivationMemory, ThreadsShareIt) {
  const ActivationReserve reserve(4 * kMegabyte);
  std::vector<std::jthread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([seed] {
      std::minstd_rand random(seed);
      std::vector<Tensor> mine(8);
      for (int i = 0; i < 500; ++i) {
        Tensor& tensor = mine[random() % mine.size()];
        if (tensor.rows() > 0) {
          ASSERT_EQ(tensor[tensor.rows() - 1][0], static_cast<float>(seed + 1));
        }
        tensor = tensor_of_rows(16 + random() % 100);
        tensor[tensor.rows() - 1][0] = static_cast<float>(seed + 1);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(reserve.used(), 0U);
}

}  // namespace
}  // namespace perigee
