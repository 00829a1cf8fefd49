// AsyncIo over one io_uring. Submitting threads share the ring under a mutex; one reaper thread waits for
// completions, continues short transfers and runs the callbacks. At most `depth` transfers are in the kernel,
// more wait in a queue, so that the ring can never overflow.
#include <liburing.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/async_io_backends.h"
#include "base/error.h"
#include "base/log.h"

namespace perigee {
namespace {

// The kernel transfers at most this much at a time; a round number below it keeps continuations aligned. It
// registers no larger piece of memory either.
constexpr std::uint64_t kMaxTransfer = 1ull << 30;
// Nor more pieces than these.
constexpr std::size_t kMaxPieces = 16384;

struct Operation {
  bool is_write;
  int fd;
  std::byte* buffer;
  std::uint64_t length;
  std::uint64_t offset;
  std::uint64_t done_bytes = 0;
  AsyncIo::Done done;
};

class UringIo final : public AsyncIo {
 public:
  explicit UringIo(unsigned depth) : depth_(depth) {}

  // Separate from the constructor because failure is an expected answer.
  int start() {
    const int result = io_uring_queue_init(depth_ + 1, &ring_, 0);  // one more for the wake-up at the end
    if (result < 0) return -result;
    started_ = true;
    reaper_ = std::thread([this] { reap(); });
    return 0;
  }

  ~UringIo() override {
    if (!started_) return;
    {
      std::unique_lock lock(mutex_);
      idle_.wait(lock, [this] { return in_kernel_ == 0 && waiting_.empty(); });
      io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
      io_uring_prep_nop(sqe);
      io_uring_sqe_set_data(sqe, nullptr);
      io_uring_submit(&ring_);
    }
    reaper_.join();
    io_uring_queue_exit(&ring_);
  }

  void read(int fd, std::span<std::byte> buffer, std::uint64_t offset, Done done) override {
    enqueue(new Operation{false, fd, buffer.data(), buffer.size(), offset, 0, std::move(done)});
  }

  void write(int fd, std::span<const std::byte> buffer, std::uint64_t offset, Done done) override {
    enqueue(new Operation{true, fd, const_cast<std::byte*>(buffer.data()), buffer.size(), offset, 0,
                          std::move(done)});
  }

  void register_memory(std::span<std::byte> memory) override {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return in_kernel_ == 0 && waiting_.empty(); });
    if (!registered_.empty()) io_uring_unregister_buffers(&ring_);
    registered_ = {};
    std::vector<iovec> pieces;
    for (std::size_t begin = 0; begin < memory.size(); begin += kMaxTransfer) {
      pieces.push_back({memory.data() + begin, std::min<std::size_t>(kMaxTransfer, memory.size() - begin)});
    }
    if (pieces.empty() || pieces.size() > kMaxPieces) return;
    const int result = io_uring_register_buffers(&ring_, pieces.data(), static_cast<unsigned>(pieces.size()));
    if (result == 0) registered_ = memory;
    if (result < 0) log_debug("the kernel does not register this memory: {}", std::strerror(-result));
  }

  const char* name() const override { return "io_uring"; }

 private:
  void enqueue(Operation* operation) {
    const std::scoped_lock lock(mutex_);
    if (in_kernel_ < depth_) {
      submit(operation);
    } else {
      waiting_.push_back(operation);
    }
  }

  // The registered piece that the whole buffer lies in.
  std::optional<int> registered_piece(const Operation& operation) const {
    const std::byte* begin = registered_.data();
    if (registered_.empty() || operation.buffer < begin || operation.length == 0 ||
        operation.buffer + operation.length > begin + registered_.size()) {
      return std::nullopt;
    }
    const auto first = static_cast<std::uint64_t>(operation.buffer - begin);
    const std::uint64_t piece = first / kMaxTransfer;
    if ((first + operation.length - 1) / kMaxTransfer != piece) return std::nullopt;
    return static_cast<int>(piece);
  }

  // Call with mutex_ held and room in the ring.
  void submit(Operation* operation) {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    std::byte* buffer = operation->buffer + operation->done_bytes;
    const auto length =
        static_cast<unsigned>(std::min(operation->length - operation->done_bytes, kMaxTransfer));
    const std::uint64_t offset = operation->offset + operation->done_bytes;
    if (const std::optional<int> piece = registered_piece(*operation)) {
      if (operation->is_write) {
        io_uring_prep_write_fixed(sqe, operation->fd, buffer, length, offset, *piece);
      } else {
        io_uring_prep_read_fixed(sqe, operation->fd, buffer, length, offset, *piece);
      }
    } else if (operation->is_write) {
      io_uring_prep_write(sqe, operation->fd, buffer, length, offset);
    } else {
      io_uring_prep_read(sqe, operation->fd, buffer, length, offset);
    }
    io_uring_sqe_set_data(sqe, operation);
    ++in_kernel_;
    io_uring_submit(&ring_);
  }

  void reap() {
    for (;;) {
      io_uring_cqe* cqe = nullptr;
      const int result = io_uring_wait_cqe(&ring_, &cqe);
      if (result == -EINTR || result == -EAGAIN) continue;
      if (result < 0) fail(ErrorCode::kInternal, "io_uring stopped working: {}", std::strerror(-result));
      auto* operation = static_cast<Operation*>(io_uring_cqe_get_data(cqe));
      const int transferred = cqe->res;
      io_uring_cqe_seen(&ring_, cqe);
      if (operation == nullptr) return;
      complete(operation, transferred);
    }
  }

  void complete(Operation* operation, int transferred) {
    IoResult result;
    {
      const std::scoped_lock lock(mutex_);
      if (should_continue(*operation, transferred)) {
        --in_kernel_;
        submit(operation);
        return;
      }
      if (transferred < 0 &&
          !is_end_of_direct_file(-transferred, operation->is_write, operation->done_bytes)) {
        result.error = -transferred;
      }
      if (operation->is_write && transferred == 0 && operation->length > 0) result.error = ENOSPC;
      result.bytes = operation->done_bytes;
    }
    operation->done(result);
    delete operation;
    const std::scoped_lock lock(mutex_);
    --in_kernel_;  // not before done(), which may start others: the destructor waits for those as well
    if (!waiting_.empty() && in_kernel_ < depth_) {
      submit(waiting_.front());
      waiting_.pop_front();
    }
    idle_.notify_all();
  }

  // Adds what was transferred; true if the rest must be asked for again.
  static bool should_continue(Operation& operation, int transferred) {
    if (transferred == -EINTR || transferred == -EAGAIN) return true;
    if (transferred <= 0) return false;
    operation.done_bytes += static_cast<std::uint64_t>(transferred);
    return operation.done_bytes < operation.length;
  }

  const unsigned depth_;
  io_uring ring_{};
  bool started_ = false;
  std::thread reaper_;
  std::mutex mutex_;
  std::condition_variable idle_;
  unsigned in_kernel_ = 0;
  std::deque<Operation*> waiting_;
  std::span<std::byte> registered_;
};

// A ring that opens but cannot read (old kernels, sandboxes) must not be chosen.
int probe_read(AsyncIo& io) {
  const int fd = ::memfd_create("perigee-probe", MFD_CLOEXEC);
  if (fd < 0) return errno;
  const char text[] = "probe";
  int error = ::pwrite(fd, text, sizeof text, 0) == static_cast<ssize_t>(sizeof text) ? 0 : EIO;
  if (error == 0) {
    std::array<std::byte, sizeof text> buffer{};
    std::mutex mutex;
    std::condition_variable ready;
    bool finished = false;
    io.read(fd, buffer, 0, [&](IoResult result) {
      const std::scoped_lock lock(mutex);
      error = result.error;
      finished = true;
      ready.notify_one();
    });
    std::unique_lock lock(mutex);
    ready.wait(lock, [&] { return finished; });
    if (error == 0 && std::memcmp(buffer.data(), text, sizeof text) != 0) error = EIO;
  }
  ::close(fd);
  return error;
}

}  // namespace

std::unique_ptr<AsyncIo> try_make_uring_io(unsigned depth, std::string& reason) {
  auto io = std::make_unique<UringIo>(std::max(1u, depth));
  int error = io->start();
  if (error == 0) error = probe_read(*io);
  if (error == 0) return io;
  reason = std::strerror(error);
  return nullptr;
}

}  // namespace perigee
