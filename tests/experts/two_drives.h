// A second file system to put files on, beside that of temporary folders: memory, on most machines. For tests
// only.
#pragma once

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "support/temp_dir.h"

namespace perigee::test {

inline dev_t device_of(const std::filesystem::path& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_dev : 0;
}

// A folder of its own on another device than temporary folders are; not usable where there is none.
class OtherDrive {
 public:
  OtherDrive() {
    std::string name = "/dev/shm/perigee-test-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) return;
    path_ = name;
    const TempDir ordinary;
    usable_ = device_of(path_) != device_of(ordinary.path());
  }
  ~OtherDrive() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  OtherDrive(const OtherDrive&) = delete;
  OtherDrive& operator=(const OtherDrive&) = delete;

  bool usable() const { return usable_; }
  const std::filesystem::path& path() const { return path_; }
  dev_t device() const { return device_of(path_); }

 private:
  std::filesystem::path path_;
  bool usable_ = false;
};

}  // namespace perigee::test
