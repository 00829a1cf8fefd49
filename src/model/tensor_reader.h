// Reads chosen tensors of a checkpoint into memory in two phases: first everything wanted is named and
// checked against its expected shape, then it is read in file order. Remembers what was asked for, so that
// nothing in a checkpoint is overlooked silently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/thread_pool.h"
#include "checkpoint/safetensors.h"
#include "compute/matrix.h"
#include "model/checkpoint_tensors.h"
#include "model/weights.h"

namespace perigee {

// Memory for weights in large pieces, of huge pages where the kernel has them; every tensor on a cache line.
class WeightArena {
 public:
  static constexpr std::size_t kPiece = std::size_t{64} << 20;
  explicit WeightArena(std::size_t piece = kPiece) : piece_(piece) {}
  std::byte* allocate(std::size_t bytes);
  std::uint64_t bytes() const { return total_; }

 private:
  static constexpr std::size_t kAlignment = 64;
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::size_t piece_;
  std::vector<std::unique_ptr<std::byte, Free>> pieces_;
  std::byte* next_ = nullptr;
  std::size_t left_ = 0;
  std::uint64_t total_ = 0;
};

class TensorReader {
 public:
  // Sees each tensor's bytes as they lie in the checkpoint, once they are read.
  using Observer = std::function<void(const TensorInfo& tensor, std::span<const std::byte> bytes)>;

  explicit TensorReader(std::shared_ptr<const CheckpointTensors> tensors) : tensors_(std::move(tensors)) {}

  // Plan a weight matrix `module` of [rows, columns], in whichever form the checkpoint has it. `matrix` is
  // complete after read() and must stay where it is until then. kNotFound or kUnsupported naming the tensor.
  void want_matrix(const std::string& module, std::size_t rows, std::size_t columns, Matrix& matrix);

  // Plan a small tensor as floats. Its shape must be one of `shapes`.
  void want_vector(const std::string& name, const std::vector<std::vector<std::uint64_t>>& shapes,
                   Vector& values);

  // The same for a tensor of one dimension that may have more elements than the `least` that count; see
  // cut_zero_padding().
  void want_padded_vector(const std::string& name, std::uint64_t least, Vector& values);

  // kUnsupported naming a tensor that nobody wanted and that is no part of the model's other towers. Of each
  // layer, the first `experts_elsewhere` routed experts are somebody else's.
  void check_nothing_left(std::uint64_t layers, std::uint64_t experts_elsewhere = 0) const;

  // Of the tensors of routed experts that nobody wanted, in the checkpoint.
  std::uint64_t other_expert_bytes() const;

  std::uint64_t wanted_bytes() const { return wanted_bytes_; }                 // in the checkpoint
  std::uint64_t memory_bytes() const { return wanted_bytes_ + float_bytes_; }  // after read()
  // Reads about `batch_bytes` at a time, from as many bytes on with a thread for each core. `progress` and
  // `observe` are called by this thread, after the batch, tensor by tensor.
  static constexpr std::uint64_t kBatchBytes = std::uint64_t{64} << 20;
  void read(WeightArena& arena, const std::function<void(std::uint64_t, std::uint64_t)>& progress,
            const Observer& observe = {}, std::uint64_t batch_bytes = kBatchBytes);

  // The memory that the Vectors view, after read().
  std::deque<std::vector<float>> take_vectors() { return std::move(vectors_); }

  // First elements of a vector after `keep`, which must be zero; see docs/model.md on A_log.
  static void cut_zero_padding(const std::string& name, std::size_t keep, Vector& values);

 private:
  using Location = CheckpointTensors::Location;
  struct Read {
    Location from;
    std::function<void(const std::byte*)> done;  // gets the bytes, in the arena
  };

  // The first of the reads that make a batch: at least one.
  static std::span<const Read> first_batch(std::span<const Read> reads, std::uint64_t batch_bytes);
  std::vector<std::span<std::byte>> read_batch(std::span<const Read> batch, WeightArena& arena,
                                               ThreadPool& pool) const;

  const Location* find(const std::string& name) const { return tensors_->find(name); }
  Location take(const std::string& name);  // kNotFound if absent
  void plan(const Location& from, std::function<void(const std::byte*)> done);
  const std::vector<float>& plan_floats(const Location& from);  // filled by read()
  void want_plain(const std::string& name, Matrix& matrix);
  void want_nibbles(const std::string& module, Matrix& matrix);
  void want_fp8(const std::string& module, Matrix& matrix);

  std::shared_ptr<const CheckpointTensors> tensors_;
  std::unordered_map<std::string, bool> taken_;
  std::vector<Read> reads_;
  std::deque<std::vector<float>> vectors_;  // floats made of other types; moved out by take_vectors()
  std::uint64_t wanted_bytes_ = 0;
  std::uint64_t float_bytes_ = 0;  // of vectors_
};

}  // namespace perigee
