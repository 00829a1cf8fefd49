// SHA-256 of a stream on a thread of its own, so that hashing never holds up the disk or the workers.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>

#include "base/hash.h"

namespace perigee {

class OrderedHasher {
 public:
  OrderedHasher();
  ~OrderedHasher();
  OrderedHasher(const OrderedHasher&) = delete;
  OrderedHasher& operator=(const OrderedHasher&) = delete;

  // Bytes are hashed in the order of the calls. They must stay valid as long as a copy of `keep_alive`
  // exists; an empty handle means that the caller guarantees it until finish_hex().
  void update(std::span<const std::byte> bytes, std::shared_ptr<void> keep_alive);
  // Waits for everything and returns 64 hex digits; no further update() may follow.
  std::string finish_hex();

 private:
  struct Piece {
    std::span<const std::byte> bytes;
    std::shared_ptr<void> keep_alive;
  };
  void work();

  Sha256 hash_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Piece> pieces_;
  bool stopping_ = false;
  bool busy_ = false;
  std::thread thread_;
};

}  // namespace perigee
