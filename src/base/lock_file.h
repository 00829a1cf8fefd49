// A file that says "somebody is at work here": locked by the kernel as long as its owner lives, so that a
// crash leaves nothing to clean up. Its text tells others what the owner is doing.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace perigee {

class LockFile {
 public:
  LockFile() = default;
  ~LockFile();
  LockFile(LockFile&& other) noexcept;
  LockFile& operator=(LockFile&& other) noexcept;
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

  // Takes the lock and replaces the text; nothing if another process has it. Creates the file if need be.
  static std::optional<LockFile> try_take(const std::filesystem::path& path, const std::string& text);

  // The text of a lock that some process holds; nothing if nobody does.
  static std::optional<std::string> held_text(const std::filesystem::path& path);

 private:
  explicit LockFile(int fd) : fd_(fd) {}
  int fd_ = -1;
};

}  // namespace perigee
