#include "base/lock_file.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace perigee {
namespace {

TEST(LockFile, IsHeldByOneAndFreeAfterItsDeath) {
  const test::TempDir dir;
  EXPECT_EQ(LockFile::held_text(dir / "lock"), std::nullopt);
  {
    const std::optional<LockFile> lock = LockFile::try_take(dir / "lock", "first");
    ASSERT_TRUE(lock);
    EXPECT_FALSE(LockFile::try_take(dir / "lock", "second"));
    EXPECT_EQ(LockFile::held_text(dir / "lock"), "first") << "an attempt must not change the text";
  }
  EXPECT_EQ(LockFile::held_text(dir / "lock"), std::nullopt);
  const std::optional<LockFile> again = LockFile::try_take(dir / "lock", "x");
  ASSERT_TRUE(again);
  EXPECT_EQ(LockFile::held_text(dir / "lock"), "x");
}

TEST(LockFile, MovesItsLock) {
  const test::TempDir dir;
  LockFile kept;
  {
    std::optional<LockFile> lock = LockFile::try_take(dir / "lock", "text");
    ASSERT_TRUE(lock);
    kept = *std::move(lock);
  }
  EXPECT_EQ(LockFile::held_text(dir / "lock"), "text");
}

TEST(LockFile, NamesAFolderThatDoesNotExist) {
  const test::TempDir dir;
  EXPECT_ERROR(LockFile::try_take(dir / "missing/lock", ""), ErrorCode::kNotFound, "missing/lock");
}

}  // namespace
}  // namespace perigee
