#include "base/ordered_hasher.h"

namespace perigee {

OrderedHasher::OrderedHasher(bool with_sha256) {
  if (with_sha256) sha256_.emplace();
  thread_ = std::thread([this] { work(); });
}

OrderedHasher::~OrderedHasher() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    pieces_.clear();
  }
  changed_.notify_all();
  thread_.join();
}

void OrderedHasher::update(std::span<const std::byte> bytes, std::shared_ptr<void> keep_alive) {
  const std::scoped_lock lock(mutex_);
  pieces_.push_back({bytes, std::move(keep_alive)});
  changed_.notify_all();
}

StreamDigest OrderedHasher::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return pieces_.empty() && !busy_; });
  return {xxh3_.value(), sha256_ ? sha256_->finish_hex() : ""};
}

void OrderedHasher::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !pieces_.empty(); });
    if (stopping_) return;
    Piece piece = std::move(pieces_.front());
    pieces_.pop_front();
    busy_ = true;
    lock.unlock();
    xxh3_.update(piece.bytes);
    if (sha256_) sha256_->update(piece.bytes);
    piece.keep_alive.reset();
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace perigee
