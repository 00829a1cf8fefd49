// The arithmetic of steps, against hand-made sums.
#include "experts/step_model.h"

#include <gtest/gtest.h>

namespace perigee {
namespace {

using Points = std::vector<DriveModel::Point>;

TEST(StepModel, RatesBetweenMeasuredDepthsLieOnALine) {
  const DriveModel drive = DriveModel::through(Points{{1, 100}, {2, 150}, {4, 190}}, 6);
  EXPECT_EQ(drive.bytes_per_second, (std::vector<double>{100, 150, 170, 190, 190, 190}));
  EXPECT_EQ(DriveModel::through(Points{{2, 80}}, 3).bytes_per_second, (std::vector<double>{80, 80, 80}));
}

TEST(StepModel, ABatchEndsWithFewerReadsUnderWay) {
  const DriveModel drive = DriveModel::through(Points{{1, 100}, {2, 200}}, 2);
  EXPECT_DOUBLE_EQ(batch_seconds(drive, 0, 1000), 0);
  EXPECT_DOUBLE_EQ(batch_seconds(drive, 1, 1000), 10);
  EXPECT_DOUBLE_EQ(batch_seconds(drive, 2, 1000), 5 + 10);
  EXPECT_DOUBLE_EQ(batch_seconds(drive, 5, 1000), 4 * 5 + 10);
  EXPECT_DOUBLE_EQ(batch_seconds(drive, 0.5, 1000), 5);
}

TEST(StepModel, DrivesShareTheRecords) {
  const Points points = {{1, 100}, {2, 200}};
  const double one = batch_seconds(DriveModel::through(points, 2, 1), 4, 1000);
  const double two = batch_seconds(DriveModel::through(points, 2, 2), 8, 1000);
  EXPECT_DOUBLE_EQ(one, two);
}

TEST(StepModel, ReadingAndMultiplyingOverlapButForTheLastExpert) {
  const DriveModel drive = DriveModel::through(Points{{1, 100}}, 1);
  EXPECT_DOUBLE_EQ(layer_seconds(drive, 1000, {3, 16, 1}), 3 * 10 + 1);
  EXPECT_DOUBLE_EQ(layer_seconds(drive, 1000, {3, 16, 4}), 16 * 4);
  EXPECT_DOUBLE_EQ(layer_seconds(drive, 1000, {0, 16, 1}), 16);
}

TEST(StepModel, AverageLayersTakeLongerThanTheAverageOfTheirReads) {
  const DriveModel drive = DriveModel::through(Points{{1, 100}}, 1);
  // Two experts, each missing one time in two: none, one, one, both.
  EXPECT_NEAR(mean_layer_seconds(drive, 1000, {1, 2, 4}), (8 + 14 + 14 + 24) / 4.0, 1e-9);
  EXPECT_DOUBLE_EQ(mean_layer_seconds(drive, 1000, {0, 2, 4}), 8);
  EXPECT_DOUBLE_EQ(mean_layer_seconds(drive, 1000, {2, 2, 4}), 24);
}

TEST(StepModel, ManyTokensUseEveryExpert) {
  EXPECT_NEAR(distinct_experts(896, 16, 1), 16, 1e-9);
  EXPECT_NEAR(distinct_experts(896, 16, 2), 32 - 16.0 * 16 / 896, 1e-9);
  EXPECT_NEAR(distinct_experts(896, 16, 4096), 896, 1e-6);
}

}  // namespace
}  // namespace perigee
