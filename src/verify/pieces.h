// Cuts the work of one output file into pieces of bounded size, in the order of the file, and says what each
// piece reads. If the file is to be hashed, pieces cover every byte of it once and in order.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/pipeline.h"
#include "verify/plan.h"

namespace perigee::verifying {

enum class PieceKind : std::uint8_t { kModule, kCopy, kFp8, kHashOnly };

struct ByteRange {
  std::uint64_t begin = 0, end = 0;
  std::uint64_t size() const { return end - begin; }
};

struct Piece {
  PieceKind kind = PieceKind::kHashOnly;
  std::size_t work = 0;     // index into the plan's list of that kind
  std::uint64_t first = 0;  // block of 16, byte, or element within the tensor
  std::uint64_t count = 0;
  bool last = true;      // of its tensor or module
  ByteRange file_range;  // of the output file: what the piece mainly compares, or hashes
  ByteRange hash_range;  // of the output file: what of the bytes it reads goes into the hash
};

// What a read is for. Roles of one side lie next to each other in most files and are then read as one.
enum class Role : std::uint8_t {
  kSourceMain,
  kSourceScales,
  kSourceFactor,
  kSourceInput,
  kOutputMain,
  kOutputScales,
  kOutputFactor,
  kOutputInput
};
inline constexpr std::size_t kRoles = 8;

// Where each role's bytes are among the inputs of the piece's task.
struct PieceReads {
  TaskPlan plan;
  struct Part {
    std::size_t input = 0;
    std::uint64_t offset = 0, length = 0;  // length 0: absent
  };
  std::array<Part, kRoles> parts;
  // The output file's bytes that are read around file_range, and in which input.
  ByteRange around;
  std::size_t around_input = 0;

  std::span<const std::byte> bytes(const Task& task, Role role) const {
    const Part& part = parts[static_cast<std::size_t>(role)];
    if (part.length == 0) return {};
    return task.inputs[part.input].subspan(part.offset, part.length);
  }
};

struct PieceList {
  std::vector<Piece> pieces;
  std::uint64_t units = 0, skipped = 0;  // experts' modules and slices, before and by sampling
  std::uint64_t largest_slot = 0;
};

// `fraction` below 1 samples; then nothing is hashed whatever `hash` says.
PieceList make_pieces(const WorkPlan& plan, const CheckedShard& output, bool hash, double fraction);

PieceReads piece_reads(const WorkPlan& plan, const CheckedShard& output, const Piece& piece);

}  // namespace perigee::verifying
