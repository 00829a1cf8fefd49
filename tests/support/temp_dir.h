// A folder of its own for every test, removed with everything in it, so that tests can run side by side and
// leave nothing behind. For tests only.
#pragma once

#include <filesystem>
#include <string_view>

namespace perigee::test {

class TempDir {
 public:
  // Creates an empty folder below GoogleTest's temporary folder.
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // A path inside the folder; nothing is created.
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace perigee::test
