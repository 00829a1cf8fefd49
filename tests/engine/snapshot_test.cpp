#include "engine/snapshot.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <limits>

#include "base/file.h"
#include "engine/loaded_mini.h"
#include "support/expect_error.h"

namespace perigee {
namespace {

const K3Config& config() {
  return test::mini_weights().config();
}

// A state for `positions` tokens. Every float is another number, every latent differs from its neighbours.
SequenceState filled_state(std::size_t positions, Precision precision = Precision::kBf16) {
  SequenceState state(config());
  float next = 1;
  const auto fill = [&](std::span<float> values) {
    for (float& value : values) value = next++;
  };
  for (auto& layer : state.layers) {
    if (auto* kda = std::get_if<KdaState>(&layer)) {
      for (Tensor* tensor : {&kda->conv_q, &kda->conv_k, &kda->conv_v, &kda->s}) fill(tensor->values());
    } else {
      auto& cache = std::get<MlaCache>(layer);
      std::vector<float> row(cache.width());
      for (std::size_t position = 0; position < positions; ++position) {
        fill(row);
        cache.write(position, row, precision);
      }
    }
  }
  state.position = positions;
  return state;
}

void expect_equal_states(SequenceState& found, SequenceState& expected) {
  ASSERT_EQ(found.position, expected.position);
  ASSERT_EQ(found.layers.size(), expected.layers.size());
  for (std::size_t i = 0; i < expected.layers.size(); ++i) {
    if (auto* kda = std::get_if<KdaState>(&expected.layers[i])) {
      auto& other = std::get<KdaState>(found.layers[i]);
      const auto equal = [](const Tensor& a, const Tensor& b) {
        return std::equal(a.values().begin(), a.values().end(), b.values().begin(), b.values().end());
      };
      EXPECT_TRUE(equal(other.conv_q, kda->conv_q) && equal(other.conv_k, kda->conv_k) &&
                  equal(other.conv_v, kda->conv_v) && equal(other.s, kda->s))
          << "layer " << i;
    } else {
      auto& cache = std::get<MlaCache>(expected.layers[i]);
      auto& other = std::get<MlaCache>(found.layers[i]);
      for (std::size_t position = 0; position < expected.position; ++position) {
        EXPECT_TRUE(std::ranges::equal(std::as_const(cache).rows(position, 1),
                                       std::as_const(other).rows(position, 1)))
            << "layer " << i << " position " << position;
      }
    }
  }
}

std::string bytes_of(const std::filesystem::path& path) {
  return read_small_file(path, 1 << 28);
}

void write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST(Snapshot, RestoresEveryValueInMemoryAndFromAFile) {
  const test::TempDir folder;
  for (const std::size_t positions : {0u, 1u, 255u, 256u, 257u, 600u}) {
    SequenceState state = filled_state(positions);
    const auto ids = test::mini_ids(positions, 1);
    const Snapshot snapshot = take_snapshot(state, ids, "k3 bf16");
    SequenceState restored = restore_snapshot(snapshot, config(), ids, "k3 bf16");
    expect_equal_states(restored, state);
    save_snapshot(snapshot, folder / "state");
    SequenceState loaded = restore_snapshot(load_snapshot(folder / "state"), config(), ids, "k3 bf16");
    expect_equal_states(loaded, state);
  }
}

TEST(Snapshot, KeepsLatentsAsTheStateDoes) {
  const test::TempDir folder;
  const auto ids = test::mini_ids(300, 1);
  for (const Precision precision : {Precision::kBf16, Precision::kF32}) {
    SequenceState state = filled_state(300, precision);
    save_snapshot(take_snapshot(state, ids, "k3"), folder / "state");
    SequenceState loaded = restore_snapshot(load_snapshot(folder / "state"), config(), ids, "k3");
    expect_equal_states(loaded, state);
    for (const auto& layer : loaded.layers) {
      if (const auto* cache = std::get_if<MlaCache>(&layer)) {
        EXPECT_EQ(cache->precision(), precision);
      }
    }
  }
}

TEST(Snapshot, HasTheSizeOfItsState) {
  const K3Config& c = config();
  for (const Precision precision : {Precision::kBf16, Precision::kF32}) {
    const SequenceState state = filled_state(10, precision);
    const std::size_t latent = precision == Precision::kBf16 ? 2 : 4;
    std::size_t bytes = 0;
    for (const bool is_mla : c.is_mla) {
      const std::size_t width = c.kda_num_heads * c.kda_head_dim;
      bytes += is_mla ? latent * 10 * (c.kv_lora_rank + c.qk_rope_head_dim)
                      : 4 * (3 * 3 * width + width * c.kda_head_dim);
    }
    EXPECT_EQ(take_snapshot(state, test::mini_ids(10, 1), "").bytes.size(), bytes);
    EXPECT_EQ(snapshot_bytes(state), bytes);
  }
}

TEST(Snapshot, IsOnlyGoodForItsOwnIdsAndModel) {
  const auto ids = test::mini_ids(5, 1);
  const Snapshot snapshot = take_snapshot(filled_state(5), ids, "one");
  auto other = ids;
  other[4] ^= 1;
  EXPECT_ERROR(restore_snapshot(snapshot, config(), other, "one"), ErrorCode::kMismatch,
               "only good for its own");
  const std::span<const std::uint32_t> shorter(ids.data(), 4);
  EXPECT_ERROR(restore_snapshot(snapshot, config(), shorter, "one"), ErrorCode::kMismatch, "5 tokens");
  other = ids;
  other.push_back(1);
  EXPECT_ERROR(restore_snapshot(snapshot, config(), other, "one"), ErrorCode::kMismatch, "6 others");
  EXPECT_ERROR(restore_snapshot(snapshot, config(), ids, "two"), ErrorCode::kMismatch,
               "model one, not to two");
}

TEST(Snapshot, OfAnotherShapeIsRefusedEvenUnderTheSameName) {
  const auto ids = test::mini_ids(5, 1);
  const Snapshot snapshot = take_snapshot(filled_state(5), ids, "one");
  K3Config wider = config();
  wider.kda_head_dim += 1;
  EXPECT_ERROR(restore_snapshot(snapshot, wider, ids, "one"), ErrorCode::kMismatch, "bytes of state");
}

TEST(Snapshot, NeedsTheIdsOfItsState) {
  EXPECT_ERROR(take_snapshot(filled_state(5), test::mini_ids(4, 1), ""), ErrorCode::kInternal, "5 tokens");
}

TEST(Snapshot, NoticesDamageInMemory) {
  const auto ids = test::mini_ids(3, 1);
  Snapshot snapshot = take_snapshot(filled_state(3), ids, "one");
  snapshot.bytes[100] ^= std::byte{1};
  EXPECT_ERROR(restore_snapshot(snapshot, config(), ids, "one"), ErrorCode::kCorrupt, "checksum");
}

TEST(SnapshotFile, NoticesADamagedBitAnywhere) {
  const test::TempDir folder;
  const auto ids = test::mini_ids(2, 1);
  save_snapshot(take_snapshot(filled_state(2), ids, "model"), folder / "good");
  const std::string good = bytes_of(folder / "good");
  for (std::size_t position = 0; position < good.size(); position += position < 80 ? 1 : 997) {
    std::string bad = good;
    bad[position] = static_cast<char>(bad[position] ^ 4);
    write(folder / "bad", bad);
    EXPECT_THROW(load_snapshot(folder / "bad"), Error) << "byte " << position;
  }
}

TEST(SnapshotFile, NoticesEveryTruncationAndExtension) {
  const test::TempDir folder;
  save_snapshot(take_snapshot(filled_state(2), test::mini_ids(2, 1), "model"), folder / "good");
  const std::string good = bytes_of(folder / "good");
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{7}, std::size_t{47}, std::size_t{48}, std::size_t{60}, good.size() - 1}) {
    write(folder / "bad", good.substr(0, size));
    EXPECT_ERROR(load_snapshot(folder / "bad"), ErrorCode::kCorrupt, "bad");
  }
  write(folder / "bad", good + "x");
  EXPECT_ERROR(load_snapshot(folder / "bad"), ErrorCode::kCorrupt, "1 bytes too many");
}

// Header: magic 8, version 4, precision 4, then the lengths: ids at 16, fingerprint at 24, state at 32.
TEST(SnapshotFile, AllocatesNothingForLengthsThatTheFileDoesNotHave) {
  const test::TempDir folder;
  save_snapshot(take_snapshot(filled_state(2), test::mini_ids(2, 1), "model"), folder / "good");
  const std::string good = bytes_of(folder / "good");
  for (const std::size_t field : {16u, 24u, 32u}) {
    for (const std::uint64_t length :
         {std::uint64_t{1} << 40, std::uint64_t{1} << 62, (std::uint64_t{1} << 62) + 2, ~std::uint64_t{0}}) {
      std::string bad = good;
      std::memcpy(bad.data() + field, &length, sizeof(length));
      write(folder / "bad", bad);
      EXPECT_ERROR(load_snapshot(folder / "bad"), ErrorCode::kCorrupt, "shorter than its header says");
    }
  }
}

TEST(SnapshotFile, RefusesOtherFilesAndVersions) {
  const test::TempDir folder;
  save_snapshot(take_snapshot(filled_state(2), test::mini_ids(2, 1), "model"), folder / "good");
  std::string bytes = bytes_of(folder / "good");
  write(folder / "text", std::string(100, 'x'));
  EXPECT_ERROR(load_snapshot(folder / "text"), ErrorCode::kCorrupt, "not a snapshot");
  EXPECT_ERROR(load_snapshot(folder / "absent"), ErrorCode::kNotFound, "absent");
  bytes[8] = 1;  // with float32 latents in bf16 mode
  write(folder / "older", bytes);
  EXPECT_ERROR(load_snapshot(folder / "older"), ErrorCode::kUnsupported,
               "version 1, but this program reads version 2; delete it");
  bytes[8] = 3;
  write(folder / "newer", bytes);
  EXPECT_ERROR(load_snapshot(folder / "newer"), ErrorCode::kUnsupported, "version 3");
  bytes[8] = 2;
  bytes[12] = 2;
  write(folder / "odd", bytes);
  EXPECT_ERROR(load_snapshot(folder / "odd"), ErrorCode::kCorrupt, "precision");
}

TEST(SnapshotFile, ReplacesAnOlderOneWholeAndLeavesNothingBeside) {
  const test::TempDir folder;
  save_snapshot(take_snapshot(filled_state(20), test::mini_ids(20, 1), "model"), folder / "state");
  save_snapshot(take_snapshot(filled_state(2), test::mini_ids(2, 1), "model"), folder / "state");
  EXPECT_EQ(load_snapshot(folder / "state").ids.size(), 2u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  EXPECT_ERROR(save_snapshot(Snapshot{}, folder / "no/such/folder/state"), ErrorCode::kNotFound, "no/such");
}

}  // namespace
}  // namespace perigee
