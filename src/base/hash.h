// SHA-256 (OpenSSL, for checksums that other tools must be able to check) and xxHash3 (for our own records).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/cancel.h"

namespace perigee {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  void update(std::span<const std::byte> bytes);
  // 64 lower-case hex digits; the object must not be used afterwards.
  std::string finish_hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// xxHash3 of a stream; cheap enough to run beside everything else.
class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();
  Xxh3(const Xxh3&) = delete;
  Xxh3& operator=(const Xxh3&) = delete;
  void update(std::span<const std::byte> bytes);
  std::uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string sha256_hex(std::span<const std::byte> bytes);
// Of a whole file, read in pieces that do not stay in the page cache. `cancel` may be null.
std::string sha256_of_file(const std::filesystem::path& path, const CancelToken* cancel);
std::uint64_t xxh3_64(std::span<const std::byte> bytes);

}  // namespace perigee
