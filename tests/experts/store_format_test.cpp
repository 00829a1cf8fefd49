// The index of a store: its bytes, and that nothing in it is believed unchecked. Offsets and sizes are
// worked out by hand from docs/formats.md.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "base/hash.h"
#include "experts/small_store_index.h"
#include "support/expect_error.h"

namespace perigee {
namespace {

using test::expert_matrices;
using test::small_index;

TEST(StoreRecord, OfK3IsWholePagesWithoutPadding) {
  const RunLayout record = record_layout(expert_matrices(WeightFormat::kMxfp4, 3072, 3584));
  EXPECT_EQ(record.bytes, 17'547'264u);
  EXPECT_EQ(record.bytes, 4284u * 4096);
  EXPECT_EQ(record.matrices[0].values, 0u);
  EXPECT_EQ(record.matrices[2].values, 5'505'024u);  // w3 follows w1
  EXPECT_EQ(record.matrices[1].values, 11'010'048u);
  EXPECT_EQ(record.matrices[0].scales, 16'515'072u);
  EXPECT_EQ(record.matrices[2].scales, 16'859'136u);
  EXPECT_EQ(record.matrices[1].scales, 17'203'200u);
}

TEST(StoreRecord, OfNvfp4HasItsGlobalScalesBehindTheBlockScales) {
  const RunLayout record = record_layout(expert_matrices(WeightFormat::kNvfp4, 3072, 3584));
  EXPECT_EQ(record.matrices[0].global, 18'579'456u);
  EXPECT_EQ(record.matrices[2].global, 18'579'456u + 64);
  EXPECT_EQ(record.matrices[1].global, 18'579'456u + 128);
  EXPECT_EQ(record.bytes, 4537u * 4096);
}

TEST(StoreRecord, PutsEveryPartOnACacheLine) {
  const RunLayout record =
      record_layout(expert_matrices(WeightFormat::kMxfp4, 32, 96));  // 1536 + 96 bytes each
  EXPECT_EQ(record.matrices[0].scales, 4608u);
  EXPECT_EQ(record.matrices[2].scales, 4736u);  // 4704 would be the next free byte
  EXPECT_EQ(record.matrices[1].scales, 4864u);
  EXPECT_EQ(record.bytes, 8192u);
}

StoreIndex parse(const std::string& text) {
  return parse_store_index(std::as_bytes(std::span(text)), "the index");
}

// Where things stand in the index of small_index().
constexpr std::size_t kVersionAt = 8, kFlagsAt = 12, kBytesAt = 16, kExpertsAt = 36, kLayoutsAt = 40,
                      kFilesAt = 44, kLayoutAt = 48, kFormatAt = 56, kRowsAt = 64, kW1ScalesAt = 88,
                      kFileAt = 200, kPathAt = 216, kLayersAt = 296, kRecordAt = 304, kEnd = 408;

// The index with a value replaced, and its checksum made right again.
template <typename T>
std::string forged(std::size_t at, T value) {
  std::string text = serialize_store_index(small_index());
  std::memcpy(text.data() + at, &value, sizeof(value));
  const std::uint64_t checksum = xxh3_64(std::as_bytes(std::span(text)).first(text.size() - 8));
  std::memcpy(text.data() + text.size() - 8, &checksum, 8);
  return text;
}

TEST(StoreIndexFile, ComesBackAsItWasWritten) {
  const StoreIndex index = parse(serialize_store_index(small_index()));
  EXPECT_EQ(index.config_checksum, 0x1122334455667788u);
  EXPECT_FALSE(index.linked);
  ASSERT_EQ(index.files.size(), 2u);
  EXPECT_EQ(index.files[0].path, "experts-a.bin");
  EXPECT_EQ(index.files[0].fallback, "/packed/experts-a.bin");
  EXPECT_EQ(index.files[1].path, "../b/experts-b.bin");
  EXPECT_EQ(index.files[1].bytes, 16384u);
  EXPECT_EQ(index.table.layouts, small_index().table.layouts);
  EXPECT_EQ(index.table.has_experts, (std::vector<bool>{false, true, true}));
  EXPECT_EQ(index.table.experts, 2u);
  ASSERT_EQ(index.table.records.size(), 4u);
  EXPECT_EQ(index.table.records[1].file, 1u);
  EXPECT_EQ(index.table.records[1].offset, 8192u);
  EXPECT_EQ(index.table.records[1].checksum, 22u);
}

TEST(StoreIndexFile, HasItsFieldsWhereTheDocumentSays) {
  const std::string text = serialize_store_index(small_index());
  EXPECT_EQ(text.substr(0, 8), "PGEXPERT");
  EXPECT_EQ(text.size(), kEnd);
  EXPECT_EQ(text.substr(kPathAt, 13), "experts-a.bin");
  EXPECT_EQ(text[kLayersAt + 1], 1);
  EXPECT_EQ(static_cast<unsigned char>(text[kRecordAt + 16]), 11);
}

TEST(StoreIndexFile, IsRefusedWithAnyByteChanged) {
  const std::string good = serialize_store_index(small_index());
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    EXPECT_THROW(parse(bad), Error) << "byte " << i;
  }
}

TEST(StoreIndexFile, IsRefusedWhenCutOrLengthened) {
  const std::string good = serialize_store_index(small_index());
  for (std::size_t i = 0; i < good.size(); ++i) EXPECT_THROW(parse(good.substr(0, i)), Error) << i;
  EXPECT_ERROR(parse(good + std::string(8, '\0')), ErrorCode::kCorrupt, "length");
}

TEST(StoreIndexFile, OfAnotherVersionIsNotGuessedAt) {
  EXPECT_ERROR(parse(forged<std::uint32_t>(kVersionAt, 2)), ErrorCode::kUnsupported, "version 2");
}

TEST(StoreIndexFile, ThatContradictsItselfIsRefusedEvenWithARightChecksum) {
  EXPECT_ERROR(parse(forged<std::uint32_t>(kFlagsAt, 2)), ErrorCode::kCorrupt, "flags");
  EXPECT_ERROR(parse(forged<std::uint64_t>(kBytesAt, 392)), ErrorCode::kCorrupt, "length");
  EXPECT_ERROR(parse(forged<std::uint32_t>(kLayoutsAt, 0xFFFFFFFF)), ErrorCode::kCorrupt,
               "4294967295 layouts");
  EXPECT_ERROR(parse(forged<std::uint32_t>(kFilesAt, 0xFFFFFFFF)), ErrorCode::kCorrupt, "4294967295 files");
  EXPECT_ERROR(parse(forged<std::uint32_t>(kExpertsAt, 60000)), ErrorCode::kCorrupt, "120000 records");
  EXPECT_ERROR(parse(forged<std::uint32_t>(kExpertsAt, 70000)), ErrorCode::kCorrupt, "70000 experts");
  EXPECT_ERROR(parse(forged<std::uint32_t>(kExpertsAt, 1)), ErrorCode::kCorrupt, "behind its end");
  EXPECT_ERROR(parse(forged<std::uint8_t>(kLayersAt, 2)), ErrorCode::kCorrupt, "neither");
  EXPECT_ERROR(parse(forged<std::uint8_t>(kLayersAt + 3, 1)), ErrorCode::kCorrupt, "padding");
}

TEST(StoreIndexFile, WithAnImpossibleLayoutIsRefused) {
  EXPECT_ERROR(parse(forged<std::uint64_t>(kLayoutAt, 8191)), ErrorCode::kCorrupt, "8191 bytes");
  EXPECT_ERROR(parse(forged<std::uint64_t>(kLayoutAt, 4096)), ErrorCode::kCorrupt, "4096 bytes");
  EXPECT_ERROR(parse(forged<std::uint64_t>(kLayoutAt, ~0ull << 12)), ErrorCode::kCorrupt, "do not fit in");
  EXPECT_ERROR(parse(forged<std::uint8_t>(kFormatAt, 2)), ErrorCode::kCorrupt, "unknown form");
  EXPECT_ERROR(parse(forged<std::uint8_t>(kFormatAt, 1)), ErrorCode::kCorrupt, "scale too many or too few");
  EXPECT_ERROR(parse(forged<std::uint64_t>(kRowsAt, 1ull << 40)), ErrorCode::kCorrupt, "matrix of [");
  EXPECT_ERROR(parse(forged<std::uint64_t>(kRowsAt + 8, 97)), ErrorCode::kCorrupt, "matrix of [32, 97]");
  EXPECT_ERROR(parse(forged<std::uint64_t>(kW1ScalesAt, 4700)), ErrorCode::kCorrupt, "do not fit in");
  EXPECT_ERROR(parse(forged<std::uint64_t>(kW1ScalesAt, ~0ull)), ErrorCode::kCorrupt, "do not fit in");
}

TEST(StoreIndexFile, WithAnImpossibleFileOrRecordIsRefused) {
  EXPECT_ERROR(parse(forged<std::uint64_t>(kFileAt, 12288)), ErrorCode::kCorrupt, "experts-a.bin");
  EXPECT_ERROR(parse(forged<std::uint32_t>(kFileAt + 8, 0)), ErrorCode::kCorrupt, "path");
  EXPECT_ERROR(parse(forged<std::uint32_t>(kFileAt + 8, 4097)), ErrorCode::kCorrupt, "path");
  EXPECT_ERROR(parse(forged<char>(kPathAt, '\n')), ErrorCode::kCorrupt, "control characters");
  EXPECT_ERROR(parse(forged<std::uint32_t>(kRecordAt, 2)), ErrorCode::kCorrupt, "does not list");
  EXPECT_ERROR(parse(forged<std::uint32_t>(kRecordAt + 4, 1)), ErrorCode::kCorrupt, "does not list");
  EXPECT_ERROR(parse(forged<std::uint64_t>(kRecordAt + 8, 64)), ErrorCode::kCorrupt, "unaligned");
  EXPECT_ERROR(parse(forged<std::uint64_t>(kRecordAt + 8, 4096)), ErrorCode::kCorrupt, "overlap");
  EXPECT_ERROR(parse(forged<std::uint64_t>(kRecordAt + 8, ~0ull << 12)), ErrorCode::kCorrupt,
               "beyond the end");
}

TEST(StoreIndexFile, LetsLinkedRecordsStandAnywhere) {
  StoreIndex index = small_index();
  index.linked = true;
  index.table.layouts[0].bytes = 4990;
  index.table.records[1].offset = 8193;
  const StoreIndex back = parse(serialize_store_index(index));
  EXPECT_TRUE(back.linked);
  EXPECT_EQ(back.table.records[1].offset, 8193u);
}

}  // namespace
}  // namespace perigee
