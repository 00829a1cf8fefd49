#include "verify/pieces.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"

namespace perigee::verifying {
namespace {

// An expert module of K3 (5.25 MiB of nibbles) is one piece; 18 MiB with both sides and scales at most.
constexpr std::uint64_t kModuleBlocks = 1 << 20;
constexpr std::uint64_t kCopyBytes = 4 << 20;
constexpr std::uint64_t kFp8Elements = 2 << 20;
constexpr std::uint64_t kHashBytes = 8 << 20;

// The same choice for the same name everywhere, whatever the order of files.
bool is_sampled(const std::string& key, double fraction) {
  if (fraction >= 1) return true;
  const std::uint64_t hash = xxh3_64(std::as_bytes(std::span(key)));
  return static_cast<double>(hash >> 11) < fraction * 9007199254740992.0;  // 2^53
}

class Cutter {
 public:
  Cutter(PieceList& list, double fraction) : list_(list), fraction_(fraction) {}

  // `position`: of the tensor in the output file; `unit_bytes`: of one counted thing there.
  void cut(PieceKind kind, std::size_t work, std::uint64_t total, std::uint64_t at_most,
           std::uint64_t position, std::uint64_t unit_bytes, const std::string& key, bool key_per_slice) {
    for (std::uint64_t first = 0; first < total; first += at_most) {
      Piece piece;
      piece.kind = kind;
      piece.work = work;
      piece.first = first;
      piece.count = std::min(at_most, total - first);
      piece.last = first + piece.count == total;
      piece.file_range = {position + first * unit_bytes, position + (first + piece.count) * unit_bytes};
      ++list_.units;
      if (is_sampled(key_per_slice ? fmt::format("{}#{}", key, first) : key, fraction_)) {
        list_.pieces.push_back(piece);
      } else {
        ++list_.skipped;
      }
    }
  }

 private:
  PieceList& list_;
  double fraction_;
};

struct Request {
  const CheckedShard* shard;
  std::uint64_t offset, length;
  Role role;
};

void request(std::vector<Request>& requests, Role role, const LocatedTensor& tensor, std::uint64_t offset,
             std::uint64_t length) {
  if (tensor) requests.push_back({tensor.shard.get(), tensor.position() + offset, length, role});
}

void request_module(std::vector<Request>& requests, const ModuleWork& work, const Piece& piece) {
  const std::uint64_t source_group = work.source_format == ExpertFormat::kMxfp4 ? 2 : 1;
  const std::uint64_t output_group = work.output_format == ExpertFormat::kMxfp4 ? 2 : 1;
  request(requests, Role::kSourceMain, work.source_packed, piece.first * 8, piece.count * 8);
  request(requests, Role::kSourceScales, work.source_scales, piece.first / source_group,
          piece.count / source_group);
  request(requests, Role::kSourceFactor, work.source_factor, 0, 4);
  request(requests, Role::kSourceInput, work.source_input, 0, 4);
  request(requests, Role::kOutputMain, work.output_packed, piece.first * 8, piece.count * 8);
  request(requests, Role::kOutputScales, work.output_scales, piece.first / output_group,
          piece.count / output_group);
  request(requests, Role::kOutputFactor, work.output_factor, 0, 4);
  request(requests, Role::kOutputInput, work.output_input, 0, 4);
}

void request_fp8(std::vector<Request>& requests, const Fp8Work& work, const Piece& piece) {
  const std::uint64_t columns = work.output.info->shape[1];
  const std::uint64_t row_bytes = (columns + 127) / 128 * 4;
  const std::uint64_t first_tile_row = piece.first / columns / 128;
  const std::uint64_t last_tile_row = (piece.first + piece.count - 1) / columns / 128;
  request(requests, Role::kSourceMain, work.source, piece.first * 2, piece.count * 2);
  request(requests, Role::kOutputMain, work.output, piece.first, piece.count);
  request(requests, Role::kOutputScales, work.scales, first_tile_row * row_bytes,
          (last_tile_row - first_tile_row + 1) * row_bytes);
}

std::vector<Request> requests_of(const WorkPlan& plan, const Piece& piece) {
  std::vector<Request> requests;
  switch (piece.kind) {
    case PieceKind::kModule:
      request_module(requests, plan.modules[piece.work], piece);
      break;
    case PieceKind::kFp8:
      request_fp8(requests, plan.fp8[piece.work], piece);
      break;
    case PieceKind::kCopy:
      request(requests, Role::kSourceMain, plan.copies[piece.work].source, piece.first, piece.count);
      request(requests, Role::kOutputMain, plan.copies[piece.work].output, piece.first, piece.count);
      break;
    case PieceKind::kHashOnly:
      break;
  }
  return requests;
}

Piece hash_piece(std::uint64_t begin, std::uint64_t end) {
  Piece piece;
  piece.file_range = piece.hash_range = {begin, end};
  return piece;
}

// Gives every byte of the file to exactly one piece, in order; what no piece reads gets pieces of its own.
void cover_for_hash(const WorkPlan& plan, const CheckedShard& output, PieceList& list) {
  std::vector<Piece> covered;
  std::uint64_t cursor = 0;
  const auto fill_to = [&](std::uint64_t end) {
    for (; cursor < end; cursor = covered.back().hash_range.end) {
      covered.push_back(hash_piece(cursor, std::min(end, cursor + kHashBytes)));
    }
  };
  for (Piece& piece : list.pieces) {
    const ByteRange around = piece_reads(plan, output, piece).around;
    fill_to(around.begin);
    piece.hash_range = {cursor, std::max(cursor, around.end)};
    cursor = piece.hash_range.end;
    covered.push_back(piece);
  }
  fill_to(output.file_bytes);
  list.pieces = std::move(covered);
}

}  // namespace

PieceReads piece_reads(const WorkPlan& plan, const CheckedShard& output, const Piece& piece) {
  PieceReads reads;
  if (piece.kind == PieceKind::kHashOnly) {
    reads.plan.reads.push_back({&output.file, piece.file_range.begin, piece.file_range.size()});
    reads.around = piece.file_range;
    return reads;
  }
  std::vector<Request> requests = requests_of(plan, piece);
  std::sort(requests.begin(), requests.end(), [](const Request& a, const Request& b) {
    return std::tie(a.shard->name, a.shard, a.offset) < std::tie(b.shard->name, b.shard, b.offset);
  });
  const CheckedShard* previous = nullptr;
  for (const Request& next : requests) {
    auto& extents = reads.plan.reads;
    const bool joins = previous == next.shard && extents.back().offset + extents.back().length == next.offset;
    if (joins) {
      extents.back().length += next.length;
    } else {
      extents.push_back({&next.shard->file, next.offset, next.length});
    }
    previous = next.shard;
    reads.parts[static_cast<std::size_t>(next.role)] = {extents.size() - 1,
                                                        next.offset - extents.back().offset, next.length};
  }
  reads.around_input = reads.parts[static_cast<std::size_t>(Role::kOutputMain)].input;
  const Extent& main = reads.plan.reads[reads.around_input];
  reads.around = {main.offset, main.offset + main.length};
  return reads;
}

PieceList make_pieces(const WorkPlan& plan, const CheckedShard& output, bool hash, double fraction) {
  PieceList list;
  Cutter cutter(list, fraction);
  for (std::size_t i = 0; i < plan.modules.size(); ++i) {
    const ModuleWork& work = plan.modules[i];
    // w1, w2 and w3 of an expert are sampled together: they are judged together.
    cutter.cut(PieceKind::kModule, i, work.packed_bytes / 8, kModuleBlocks, work.output_packed.position(), 8,
               fmt::format("layer {} expert {}", work.layer, work.expert), false);
  }
  for (std::size_t i = 0; i < plan.copies.size(); ++i) {
    const TensorInfo& tensor = *plan.copies[i].output.info;
    cutter.cut(PieceKind::kCopy, i, tensor.bytes(), kCopyBytes, output.position(tensor), 1, tensor.name,
               true);
  }
  for (std::size_t i = 0; i < plan.fp8.size(); ++i) {
    const TensorInfo& tensor = *plan.fp8[i].output.info;
    cutter.cut(PieceKind::kFp8, i, tensor.bytes(), kFp8Elements, output.position(tensor), 1, tensor.name,
               true);
  }
  std::stable_sort(list.pieces.begin(), list.pieces.end(),
                   [](const Piece& a, const Piece& b) { return a.file_range.begin < b.file_range.begin; });
  if (hash && fraction >= 1) cover_for_hash(plan, output, list);
  for (const Piece& piece : list.pieces) {
    list.largest_slot =
        std::max(list.largest_slot, Pipeline::slot_bytes(piece_reads(plan, output, piece).plan));
  }
  return list;
}

}  // namespace perigee::verifying
