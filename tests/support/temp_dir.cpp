#include "support/temp_dir.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "base/error.h"

namespace perigee::test {

TempDir::TempDir() {
  std::string name = ::testing::TempDir() + "perigee-test-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) fail_errno(errno, "cannot create a folder like " + name);
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace perigee::test
