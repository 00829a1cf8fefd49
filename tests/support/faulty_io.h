// AsyncIo that fails on purpose: an error at the n-th transfer.
#pragma once

#include <atomic>
#include <memory>

#include "base/async_io.h"

namespace perigee::test {

class FaultyIo final : public AsyncIo {
 public:
  explicit FaultyIo(std::unique_ptr<AsyncIo> inner) : inner_(std::move(inner)) {}

  // The n-th transfer (from 0) completes with this errno value.
  void fail_transfer(std::uint64_t n, int error) {
    failing_ = n;
    error_ = error;
  }

  void read(int fd, std::span<std::byte> buffer, std::uint64_t offset, Done done) override {
    if (!fails(done)) inner_->read(fd, buffer, offset, std::move(done));
  }
  void write(int fd, std::span<const std::byte> buffer, std::uint64_t offset, Done done) override {
    if (!fails(done)) inner_->write(fd, buffer, offset, std::move(done));
  }
  void register_memory(std::span<std::byte> memory) override { inner_->register_memory(memory); }
  const char* name() const override { return "faulty"; }

 private:
  bool fails(const Done& done) {
    if (count_++ != failing_) return false;
    done(IoResult{error_, 0});
    return true;
  }

  std::unique_ptr<AsyncIo> inner_;
  std::atomic<std::uint64_t> count_ = 0;
  std::uint64_t failing_ = ~0ULL;
  int error_ = 0;
};

}  // namespace perigee::test
