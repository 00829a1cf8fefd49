#include "base/stream_writer.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace perigee {
namespace {

// Copies of data that could not be written in place are made in pieces of this size.
constexpr std::uint64_t kCopyPiece = 4ull << 20;

std::shared_ptr<std::byte> aligned_memory(std::uint64_t bytes) {
  void* memory = std::aligned_alloc(kDirectAlignment, align_up(bytes, kDirectAlignment));
  if (memory == nullptr) throw std::bad_alloc();
  return {static_cast<std::byte*>(memory), [](std::byte* p) { std::free(p); }};
}

}  // namespace

StreamWriter::StreamWriter(AsyncIo& io, const std::filesystem::path& path, std::uint64_t total_bytes)
    : io_(io), path_(path), total_(total_bytes), file_(File::create(path, Caching::kDirect)) {
  try {
    file_.preallocate(align_up(total_, kDirectAlignment));
  } catch (...) {
    ::unlink(path_.c_str());
    throw;
  }
}

StreamWriter::~StreamWriter() {
  wait_idle();
  if (!finished_) ::unlink(path_.c_str());
}

void StreamWriter::append(std::span<const std::byte> bytes, const std::shared_ptr<void>& keep_alive) {
  throw_failure();
  if (bytes.size() > total_ - position_) {
    fail(ErrorCode::kInternal, "{}: more bytes were appended than the {} announced", path_.string(), total_);
  }
  if (lead_in(position_) != 0) {
    const std::uint64_t head = std::min<std::uint64_t>(bytes.size(), kDirectAlignment - lead_in(position_));
    append_to_block(bytes.first(head));
    bytes = bytes.subspan(head);
  }
  const std::uint64_t whole = align_down(bytes.size(), kDirectAlignment);
  append_blocks(bytes.first(whole), keep_alive);
  append_to_block(bytes.subspan(whole));
}

void StreamWriter::append_blocks(std::span<const std::byte> blocks, const std::shared_ptr<void>& keep_alive) {
  if (blocks.empty()) return;
  if (keep_alive != nullptr && reinterpret_cast<std::uintptr_t>(blocks.data()) % kDirectAlignment == 0) {
    write_async(blocks, position_, keep_alive);
    position_ += blocks.size();
    return;
  }
  while (!blocks.empty()) {
    const std::uint64_t piece = std::min<std::uint64_t>(blocks.size(), kCopyPiece);
    std::shared_ptr<std::byte> copy = aligned_memory(piece);
    std::memcpy(copy.get(), blocks.data(), piece);
    write_async({copy.get(), piece}, position_, copy);
    position_ += piece;
    blocks = blocks.subspan(piece);
  }
}

void StreamWriter::append_to_block(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  if (!block_) {
    block_ = aligned_memory(kDirectAlignment);
    std::memset(block_.get(), 0, kDirectAlignment);
  }
  std::memcpy(block_.get() + lead_in(position_), bytes.data(), bytes.size());
  position_ += bytes.size();
  if (lead_in(position_) == 0) flush_block();
}

void StreamWriter::flush_block() {
  std::shared_ptr<std::byte> block = std::move(block_);
  const std::uint64_t offset = align_down(position_ - 1, kDirectAlignment);
  write_async({block.get(), kDirectAlignment}, offset, block);
}

void StreamWriter::write_async(std::span<const std::byte> bytes, std::uint64_t offset,
                               std::shared_ptr<void> keep_alive) {
  {
    const std::scoped_lock lock(mutex_);
    ++in_flight_;
  }
  io_.write(file_.fd(), bytes, offset, [this, offset, kept = std::move(keep_alive)](IoResult result) mutable {
    kept.reset();
    const std::scoped_lock lock(mutex_);
    if (result.error != 0 && error_ == 0) {
      error_ = result.error;
      error_offset_ = offset;
    }
    --in_flight_;
    idle_.notify_all();
  });
}

void StreamWriter::wait_idle() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return in_flight_ == 0; });
}

void StreamWriter::throw_failure() {
  const std::scoped_lock lock(mutex_);
  if (error_ != 0) {
    fail_errno(error_, fmt::format("cannot write {} at byte {}", path_.string(), error_offset_));
  }
}

void StreamWriter::finish() {
  if (position_ != total_) {
    fail(ErrorCode::kInternal, "{}: {} of {} bytes were appended", path_.string(), position_, total_);
  }
  if (block_) flush_block();
  wait_idle();
  throw_failure();
  file_.truncate(total_);
  file_.sync();
  file_.close();
  finished_ = true;
}

}  // namespace perigee
