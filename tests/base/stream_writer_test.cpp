#include "base/stream_writer.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "base/error.h"
#include "base/hash.h"
#include "base/ordered_hasher.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace perigee {
namespace {

std::string pattern(std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 7 + (i >> 9));
  return bytes;
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

class StreamWriterTest : public testing::Test {
 protected:
  std::string written() const { return read_small_file(dir_ / "f", 1 << 24); }
  test::TempDir dir_;
  const std::unique_ptr<AsyncIo> io_ = make_async_io();
};

TEST_F(StreamWriterTest, WritesPiecesOfAnySizeInOrder) {
  const std::string text = pattern(1'000'003);
  std::mt19937 random(7);
  for (const std::size_t largest : {3UL, 4096UL, 50'000UL, 2'000'000UL}) {
    StreamWriter writer(*io_, dir_ / "f", text.size());
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = std::min(1 + random() % largest, text.size() - at);
      writer.append(bytes_of(std::string_view(text).substr(at, length)), nullptr);
      at += length;
      if (largest == 3 && at > 20'000) {  // the rest at once, or a million tiny writes
        writer.append(bytes_of(std::string_view(text).substr(at)), nullptr);
        break;
      }
    }
    writer.finish();
    EXPECT_EQ(written(), text);
  }
}

TEST_F(StreamWriterTest, WritesInPlaceFromCongruentMemoryAndKeepsItAlive) {
  const std::string head = pattern(1234);
  const std::string body = pattern(300'000);
  StreamWriter writer(*io_, dir_ / "f", head.size() + body.size());
  writer.append(bytes_of(head), nullptr);
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kDirectAlignment, 320 * 1024));
  bool released = false;
  std::shared_ptr<void> owner(memory, [&released](void* p) {
    released = true;
    std::free(p);
  });
  const std::span<std::byte> place(memory + StreamWriter::lead_in(writer.position()), body.size());
  std::memcpy(place.data(), body.data(), body.size());
  writer.append(place, owner);
  owner.reset();
  writer.finish();
  EXPECT_TRUE(released);
  EXPECT_EQ(written(), head + body);
}

TEST_F(StreamWriterTest, WritesAnEmptyFile) {
  StreamWriter writer(*io_, dir_ / "f", 0);
  writer.finish();
  EXPECT_EQ(written(), "");
}

TEST_F(StreamWriterTest, RemovesWhatIsNotFinished) {
  {
    StreamWriter writer(*io_, dir_ / "f", 100'000);
    writer.append(bytes_of(pattern(50'000)), nullptr);
  }
  EXPECT_FALSE(std::filesystem::exists(dir_ / "f"));
}

TEST_F(StreamWriterTest, RefusesMoreAndFewerBytesThanAnnounced) {
  StreamWriter writer(*io_, dir_ / "f", 10);
  EXPECT_ERROR(writer.append(bytes_of(pattern(11)), nullptr), ErrorCode::kInternal, "more bytes");
  writer.append(bytes_of(pattern(9)), nullptr);
  EXPECT_ERROR(writer.finish(), ErrorCode::kInternal, "9 of 10 bytes");
}

TEST_F(StreamWriterTest, NamesAFolderThatDoesNotExist) {
  EXPECT_ERROR(StreamWriter(*io_, dir_ / "missing/f", 10), ErrorCode::kNotFound, "missing/f");
}

TEST(OrderedHasher, HashesPiecesInOrder) {
  const std::string text = pattern(500'000);
  OrderedHasher hasher(true);
  for (std::size_t at = 0; at < text.size(); at += 999) {
    hasher.update(bytes_of(std::string_view(text).substr(at, 999)), nullptr);
  }
  const StreamDigest digest = hasher.finish();
  EXPECT_EQ(digest.sha256, sha256_hex(bytes_of(text)));
  EXPECT_EQ(digest.xxh3, xxh3_64(bytes_of(text)));
}

TEST(OrderedHasher, ReleasesPiecesAsItGoesAndWhenItDies) {
  const std::string text = pattern(100);
  auto owner = std::make_shared<int>(0);
  {
    OrderedHasher hasher(false);
    hasher.update(bytes_of(text), owner);
    EXPECT_EQ(hasher.finish().sha256, "");
    EXPECT_EQ(owner.use_count(), 1);
    hasher.update(bytes_of(text), owner);
  }
  EXPECT_EQ(owner.use_count(), 1);
}

}  // namespace
}  // namespace perigee
