// Hashes of a stream on a thread of its own, so that hashing never holds up the disk or the workers: xxHash3
// always, for comparing a stream with its second reading, and SHA-256, which costs as much as a slow disk,
// where it is wanted.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "base/hash.h"

namespace perigee {

struct StreamDigest {
  std::uint64_t xxh3 = 0;
  std::string sha256;  // 64 hex digits, or empty
};

class OrderedHasher {
 public:
  explicit OrderedHasher(bool with_sha256);
  ~OrderedHasher();
  OrderedHasher(const OrderedHasher&) = delete;
  OrderedHasher& operator=(const OrderedHasher&) = delete;

  // Bytes are hashed in the order of the calls. They must stay valid as long as a copy of `keep_alive`
  // exists; an empty handle means that the caller guarantees it until finish().
  void update(std::span<const std::byte> bytes, std::shared_ptr<void> keep_alive);
  // Waits for everything; no further update() may follow.
  StreamDigest finish();

 private:
  struct Piece {
    std::span<const std::byte> bytes;
    std::shared_ptr<void> keep_alive;
  };
  void work();

  Xxh3 xxh3_;
  std::optional<Sha256> sha256_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Piece> pieces_;
  bool stopping_ = false;
  bool busy_ = false;
  std::thread thread_;
};

}  // namespace perigee
