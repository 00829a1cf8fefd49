#include "verify/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>

namespace perigee::verifying {
namespace {

// A cause explains a broken module if it leaves next to nothing wrong where much was wrong before.
constexpr double kMostlyBad = 0.25;
constexpr double kExplained = 0.001;

const CodePair* most_frequent_pair(const ModulePiece& piece, const PairHistogram& histogram) {
  const CodePair* best = nullptr;
  for (const CodePair& pair : histogram.pairs()) {
    if (!piece.source.is_valid(pair.source_code) || !piece.output.is_valid(pair.output_code)) continue;
    if (piece.output.block_scale(pair.output_code).numerator == 0) continue;
    if (best == nullptr || pair.blocks > best->blocks) best = &pair;
  }
  return best;
}

VerifyFailure factor_failure(const ModuleNames& names, std::string message) {
  VerifyFailure failure;
  failure.check = "tensor-scale";
  failure.file = names.factor_file;
  failure.tensor = names.factor_tensor;
  failure.message = std::move(message);
  return failure;
}

// The number as the output's layout would store it.
double stored_factor(const ModulePiece& piece, const Fraction& factor) {
  const bool divides = piece.output.format == ExpertFormat::kNvfp4CompressedTensors;
  return (divides ? factor.inverse() : factor).value();
}

bool explain_by_factor(const ModulePiece& piece, const ModuleNames& names, const PairHistogram& histogram,
                       FailureList& failures) {
  if (piece.output.is_mxfp4() || histogram.bad_share(piece.output.tensor_factor) < kMostlyBad) return false;
  const Fraction found = piece.output.tensor_factor, inverse = found.inverse();
  const auto describe = [&](const Fraction& right, std::string message) {
    VerifyFailure failure = factor_failure(names, std::move(message));
    failure.expected = fmt::format("{:.9g}", stored_factor(piece, right));
    failure.found = fmt::format("{:.9g}", stored_factor(piece, found));
    failures.add(std::move(failure));
    return true;
  };
  if (histogram.bad_share(inverse) < kExplained) {
    return describe(inverse,
                    fmt::format("{} holds the reciprocal of what it must: ModelOpt stores a multiplier "
                                "(small), compressed-tensors a divisor (large)",
                                names.factor_tensor));
  }
  const CodePair* pair = most_frequent_pair(piece, histogram);
  if (pair == nullptr) return false;
  const int shift = floor_log2(piece.source.block_scale(pair->source_code)) -
                    floor_log2(piece.output.block_scale(pair->output_code));
  Fraction shifted = found;
  shifted.exponent += shift;
  if (shift == 0 || histogram.bad_share(shifted) >= kExplained) return false;
  return describe(shifted, fmt::format("{}: all values of the module are 2^{} times what they must be",
                                       names.factor_tensor, -shift));
}

bool explain_by_order_of_scales(const ModulePiece& piece, const ModuleNames& names,
                                const PairHistogram& histogram, std::uint64_t bad_count,
                                FailureList& failures) {
  if (!piece.whole || bad_count < 8 || bad_count * 16 < piece.blocks()) return false;
  std::array<std::int64_t, 256> surplus{};
  std::uint64_t misplaced = 0;
  for (const CodePair& pair : histogram.pairs()) {
    const int expected = histogram.expected().code[pair.source_code];
    if (expected == kNoCode) return false;
    if (expected != pair.output_code) misplaced += pair.blocks;
    surplus[static_cast<unsigned>(expected)] += static_cast<std::int64_t>(pair.blocks);
    surplus[pair.output_code] -= static_cast<std::int64_t>(pair.blocks);
  }
  if (misplaced < bad_count) return false;
  if (std::any_of(surplus.begin(), surplus.end(), [](std::int64_t n) { return n != 0; })) return false;
  VerifyFailure failure;
  failure.check = "block-scale-order";
  failure.file = names.scale_file;
  failure.tensor = names.scale_tensor;
  failure.message = fmt::format(
      "{} has the right block scales in another order, wrong for {} of {} blocks: they were "
      "swizzled for a kernel or transposed; on disk they must be row-major",
      names.scale_tensor, bad_count, piece.blocks());
  failures.add(std::move(failure));
  return true;
}

bool explain_by_order_of_nibbles(const ModulePiece& piece, const ModuleNames& names, std::uint64_t bad_count,
                                 FailureList& failures) {
  if (bad_count * 4 < piece.blocks()) return false;
  const auto is_swapped = [](std::byte s, std::byte o) { return (s << 4 | s >> 4) == o; };
  if (!std::equal(piece.source_packed.begin(), piece.source_packed.end(), piece.output_packed.begin(),
                  is_swapped)) {
    return false;
  }
  VerifyFailure failure;
  failure.check = "nibble-order";
  failure.file = names.packed_file;
  failure.tensor = names.packed_tensor;
  failure.message =
      fmt::format("{} has low and high nibble of every byte swapped; the even element is the low one",
                  names.packed_tensor);
  failures.add(std::move(failure));
  return true;
}

void place(const ModulePiece& piece, std::uint64_t block, VerifyFailure& failure) {
  const std::uint64_t in_module = piece.first_block + block;
  failure.row = in_module / piece.blocks_per_row;
  failure.block = in_module % piece.blocks_per_row;
}

VerifyFailure scale_failure(const ModulePiece& piece, const ModuleNames& names, int expected_code,
                            std::uint64_t block) {
  const BlockCodes codes = block_codes(piece, block);
  VerifyFailure failure;
  failure.check = "block-scale";
  failure.file = names.scale_file;
  failure.tensor = names.scale_tensor;
  place(piece, block, failure);
  const std::uint64_t in_module = piece.first_block + block;
  failure.byte = piece.output.is_mxfp4() ? in_module / 2 : in_module;
  failure.expected = expected_code == kNoCode ? std::string("a finite code without sign")
                                              : fmt::format("0x{:02x}", expected_code);
  failure.found = fmt::format("0x{:02x}", codes.output);
  const char* what = piece.output.is_valid(codes.output) ? "" : " (NaN or negative)";
  failure.message = fmt::format("{} row {} block {}: block scale is {}{}, expected {}", names.scale_tensor,
                                *failure.row, *failure.block, failure.found, what, failure.expected);
  return failure;
}

VerifyFailure source_nan_failure(const ModulePiece& piece, const ModuleNames& names, std::uint64_t block) {
  VerifyFailure failure;
  failure.check = "source-scale";
  failure.file = names.scale_file;
  failure.tensor = names.scale_tensor;
  place(piece, block, failure);
  failure.message =
      fmt::format("{} row {} block {}: the source's scale code 0x{:02x} is NaN, so no output can be right",
                  names.scale_tensor, *failure.row, *failure.block, block_codes(piece, block).source);
  return failure;
}

// The first element that is wrong, else (a block that could be exact, with each nibble plausible) the first
// that differs.
unsigned first_wrong_element(const ModulePiece& piece, const CodePair& pair, std::uint64_t block) {
  unsigned first_inexact = 16;
  for (unsigned i = 0; i < 16; ++i) {
    const unsigned a = nibble_at(piece.source_packed, block, i), b = nibble_at(piece.output_packed, block, i);
    if ((pair.acceptable[a] >> b & 1) == 0) return i;
    if ((pair.exact[a] >> b & 1) == 0) first_inexact = std::min(first_inexact, i);
  }
  return first_inexact % 16;
}

VerifyFailure nibble_failure(const ModulePiece& piece, const ModuleNames& names, unsigned element,
                             std::uint64_t block) {
  const BlockCodes codes = block_codes(piece, block);
  const unsigned a = nibble_at(piece.source_packed, block, element),
                 b = nibble_at(piece.output_packed, block, element);
  const double expected = e2m1_doubled(a) / 2.0 * piece.source.block_scale(codes.source).value();
  const double found = e2m1_doubled(b) / 2.0 * piece.output.block_scale(codes.output).value();
  VerifyFailure failure;
  failure.check = "nibbles";
  failure.file = names.packed_file;
  failure.tensor = names.packed_tensor;
  place(piece, block, failure);
  failure.byte = (piece.first_block + block) * 8 + element / 2;
  failure.expected = fmt::format("{:.9g} (code {:x}, scale 0x{:02x})", expected, a, codes.source);
  failure.found = fmt::format("{:.9g} (code {:x}, scale 0x{:02x})", found, b, codes.output);
  failure.message = fmt::format("{} row {} column {}: value is {}, the source has {}", names.packed_tensor,
                                *failure.row, *failure.block * 16 + element, failure.found, failure.expected);
  return failure;
}

}  // namespace

void report_block(const ModulePiece& piece, const ModuleNames& names, const ExpectedCodes& expected,
                  std::uint64_t block, FailureList& failures) {
  const BlockCodes codes = block_codes(piece, block);
  const int expected_code = expected.code[codes.source];
  if (!piece.output.is_valid(codes.output)) {
    failures.add(scale_failure(piece, names, expected_code, block));
  } else if (!piece.source.is_valid(codes.source)) {
    failures.add(source_nan_failure(piece, names, block));
  } else if (expected_code != kNoCode && expected_code != codes.output) {
    failures.add(scale_failure(piece, names, expected_code, block));
  } else {
    PairHistogram judge(piece.source, piece.output);
    const CodePair& pair = judge.pair(codes.source, codes.output);
    failures.add(nibble_failure(piece, names, first_wrong_element(piece, pair, block), block));
  }
}

void diagnose(const ModulePiece& piece, const ModuleNames& names, const PairHistogram& histogram,
              std::span<const std::uint64_t> bad_blocks, std::uint64_t bad_count, FailureList& failures) {
  if (explain_by_factor(piece, names, histogram, failures)) return;
  if (explain_by_order_of_scales(piece, names, histogram, bad_count, failures)) return;
  if (explain_by_order_of_nibbles(piece, names, bad_count, failures)) return;
  for (const std::uint64_t block : bad_blocks)
    report_block(piece, names, histogram.expected(), block, failures);
  failures.count += bad_count - bad_blocks.size();
}

}  // namespace perigee::verifying
