// Where records go on one folder and on several: expected counts by proportion, worked out by hand.
#include <gtest/gtest.h>

#include "pack/record_plan.h"

namespace perigee {
namespace {

std::vector<RunLayout> layouts(std::size_t count) {
  RunLayout layout;
  for (MatrixPlace& matrix : layout.matrices) matrix.rows = 64, matrix.columns = 64;
  return std::vector<RunLayout>(count, layout);  // 3 * (2048 + 128) bytes: two pages
}

std::vector<int> counts(const LayerPlan& plan, std::size_t first, std::size_t count) {
  std::vector<int> result(plan.file_bytes.size());
  for (std::size_t i = first; i < first + count; ++i) ++result[plan.records[i].stripe];
  return result;
}

TEST(RecordPlan, PutsRecordsOneAfterAnother) {
  const LayerPlan plan = plan_records(layouts(3), {1});
  ASSERT_EQ(plan.records.size(), 3u);
  EXPECT_EQ(plan.records[2].offset, 2 * 8192u);
  EXPECT_EQ(plan.file_bytes, std::vector<std::uint64_t>{3 * 8192u});
}

TEST(RecordPlan, SharesRecordsByWeight) {
  const LayerPlan plan = plan_records(layouts(896), {1, 2, 4});
  EXPECT_EQ(counts(plan, 0, 896), (std::vector<int>{128, 256, 512}));
  EXPECT_EQ(plan.file_bytes, (std::vector<std::uint64_t>{128 * 8192, 256 * 8192, 512 * 8192}));
}

TEST(RecordPlan, SpreadsNeighboursToo) {
  const LayerPlan plan = plan_records(layouts(896), {1, 2, 4});
  for (std::size_t first = 0; first < 896; first += 7) {
    EXPECT_EQ(counts(plan, first, 7), (std::vector<int>{1, 2, 4})) << first;
  }
}

TEST(RecordPlan, NeverPutsTwoRecordsInOnePlace) {
  const LayerPlan plan = plan_records(layouts(50), {3, 1});
  std::vector<std::uint64_t> next(2);
  for (const PlannedRecord& record : plan.records) {
    EXPECT_EQ(record.offset, next[record.stripe]);
    next[record.stripe] += record.layout.bytes;
  }
}

TEST(RecordPlan, LeavesAFolderOutThatIsTooSlowForOne) {
  const LayerPlan plan = plan_records(layouts(4), {1000, 1});
  EXPECT_EQ(plan.file_bytes, (std::vector<std::uint64_t>{4 * 8192, 0}));
}

}  // namespace
}  // namespace perigee
