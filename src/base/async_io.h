// Asynchronous reads and writes at explicit offsets. Two backends behind one interface: io_uring (3 to 5
// times less CPU per byte) and a pool of pread/pwrite threads; make_async_io() probes which one works here.
// Short transfers are continued until the whole range is done; a read that meets the end of the file early
// completes with what there was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace perigee {

enum class IoBackend { kAuto, kUring, kThreads };

struct IoResult {
  int error = 0;            // errno value, 0 on success
  std::uint64_t bytes = 0;  // transferred; less than asked only for a read at the end of the file
};

class AsyncIo {
 public:
  virtual ~AsyncIo() = default;
  // `done` runs on a thread of the backend, exactly once, and must be short. The buffer must stay valid until
  // then.
  using Done = std::function<void(IoResult)>;
  virtual void read(int fd, std::span<std::byte> buffer, std::uint64_t offset, Done done) = 0;
  virtual void write(int fd, std::span<const std::byte> buffer, std::uint64_t offset, Done done) = 0;
  // Lets the backend pin this memory once (io_uring registered buffers); transfers inside it are then
  // cheaper. Optional: does nothing where it is not possible. Undone when the backend dies or by the next
  // call.
  virtual void register_memory(std::span<std::byte> memory) = 0;
  virtual const char* name() const = 0;  // "io_uring" or "threads"
};

// kAuto: io_uring if the kernel lets us (probed by a real read), else threads. kUring throws kUnsupported if
// it does not work. `depth` bounds the transfers under way.
std::unique_ptr<AsyncIo> make_async_io(IoBackend backend = IoBackend::kAuto, unsigned depth = 64);

}  // namespace perigee
