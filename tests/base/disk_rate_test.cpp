#include "base/disk_rate.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "support/temp_dir.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

TEST(DiskRate, LeavesNothingBehind) {
  const test::TempDir folder;
  const DiskRate rate = measure_disk(folder.path(), 0.02, CancelToken());
  EXPECT_GT(rate.write_bytes_per_second, 0);
  EXPECT_GT(rate.read_bytes_per_second, 0);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(DiskRate, LeavesNothingBehindWhenInterrupted) {
  const test::TempDir folder;
  CancelToken cancel;
  cancel.cancel();
  EXPECT_THROW(measure_disk(folder.path(), 0.02, cancel), Error);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(DiskRate, LooksAtTheNearestFolderThatExists) {
  const test::TempDir folder;
  EXPECT_EQ(existing_folder(folder / "a" / "b" / "c"), folder.path());
  EXPECT_EQ(existing_folder(folder.path()), folder.path());
  std::ofstream(folder / "file") << "x";
  EXPECT_EQ(existing_folder(folder / "file" / "below"), folder.path());
  EXPECT_GT(free_bytes(folder / "not" / "yet"), 0u);
}

}  // namespace
}  // namespace perigee
