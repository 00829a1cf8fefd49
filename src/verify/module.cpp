#include "verify/module.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "verify/diagnosis.h"
#include "verify/pairs.h"

namespace perigee::verifying {
namespace {

constexpr std::uint64_t kLowBits = 0x1111111111111111u;
constexpr std::uint64_t kMagnitudes = 0x7777777777777777u;
constexpr std::uint64_t kByteCounters = 0x0F0F0F0F0F0F0F0Fu;

std::uint64_t word_at(std::span<const std::byte> bytes, std::size_t block) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data() + block * 8, 8);
  return word;
}

// Bit 0 of each nibble that is 8.
std::uint64_t negative_zeros(std::uint64_t word) {
  const std::uint64_t magnitude = word & kMagnitudes;
  const std::uint64_t nonzero = magnitude | magnitude >> 1 | magnitude >> 2;
  return word >> 3 & ~nonzero & kLowBits;
}

// Adds up bits of many words in eight byte counters, emptied before they overflow: two bits a word and byte.
class BitCounter {
 public:
  static constexpr std::size_t kWordsBeforeFold = 120;
  void add(std::uint64_t low_bits) { bytes_ += (low_bits + (low_bits >> 4)) & kByteCounters; }
  void fold() {
    for (; bytes_ != 0; bytes_ >>= 8) total_ += bytes_ & 0xFF;
  }
  std::uint64_t total() {
    fold();
    return total_;
  }

 private:
  std::uint64_t bytes_ = 0, total_ = 0;
};

// The fast pass. kSource and kOutput: blocks of 16 that share one scale code on that side.
// Counts, and returns whether all nibbles (but for -0 that became 0) and all scales are equal.
template <unsigned kSource, unsigned kOutput>
bool prove_equal(const ModulePiece& piece, const ExpectedCodes& expected, PieceResult& result) {
  constexpr unsigned kStep = std::max(kSource, kOutput);
  const std::size_t blocks = piece.blocks();
  std::array<std::uint8_t, 256> valid_output{};
  for (unsigned c = 0; c < 256; ++c) valid_output[c] = piece.output.is_valid(static_cast<std::uint8_t>(c));
  const auto* source_codes = reinterpret_cast<const std::uint8_t*>(piece.source_scales.data());
  const auto* output_codes = reinterpret_cast<const std::uint8_t*>(piece.output_scales.data());
  BitCounter negative, normalised;
  std::uint64_t nibble_differences = 0, scale_differences = 0;
  for (std::size_t begin = 0; begin < blocks; begin += BitCounter::kWordsBeforeFold) {
    const std::size_t end = std::min(blocks, begin + BitCounter::kWordsBeforeFold);
    for (std::size_t block = begin; block < end; block += kStep) {
      std::array<std::uint64_t, kStep> magnitude{};
      for (unsigned h = 0; h < kStep; ++h) {
        const std::uint64_t s = word_at(piece.source_packed, block + h),
                            o = word_at(piece.output_packed, block + h);
        const std::uint64_t zeros = negative_zeros(s);
        magnitude[h] = s & kMagnitudes;
        nibble_differences |= (s ^ o) & ~(zeros << 3);
        negative.add(zeros);
        normalised.add((s ^ o) >> 3 & zeros);
      }
      for (unsigned h = 0; h < kStep; h += kSource) {
        const std::uint8_t code = source_codes[(block + h) / kSource];
        const bool active = (magnitude[h] | magnitude[h + kSource - 1]) != 0;
        ++(active ? result.active : result.zero)[code];
        for (unsigned g = h; g < h + kSource; g += std::min(kSource, kOutput)) {
          const std::uint8_t found = output_codes[(block + g) / kOutput];
          scale_differences += active ? found != expected.code[code] : valid_output[found] == 0;
        }
      }
    }
    negative.fold();
    normalised.fold();
  }
  result.counts.source_negative_zeros += negative.total();
  result.counts.normalised_negative_zeros += normalised.total();
  return nibble_differences == 0 && scale_differences == 0;
}

bool prove_equal(const ModulePiece& piece, const ExpectedCodes& expected, PieceResult& result) {
  if (piece.source.is_mxfp4()) {
    return piece.output.is_mxfp4() ? prove_equal<2, 2>(piece, expected, result)
                                   : prove_equal<2, 1>(piece, expected, result);
  }
  return piece.output.is_mxfp4() ? prove_equal<1, 2>(piece, expected, result)
                                 : prove_equal<1, 1>(piece, expected, result);
}

// The numeric check beside the integer one: some blocks as doubles. Returns the first that differs, or -1.
std::int64_t decode_some(const ModulePiece& piece, PieceResult& result) {
  std::int64_t first_different = -1;
  const unsigned step = std::max(1u, piece.decode_every);
  const std::uint64_t phase = (step - piece.first_block % step) % step;
  for (std::uint64_t block = phase; block < piece.blocks(); block += step) {
    const BlockCodes codes = block_codes(piece, block);
    if (!piece.source.is_valid(codes.source))
      continue;  // an all-zero group, or this would not have been called
    const double source_scale = piece.source.block_scale(codes.source).value();
    const double output_scale = piece.output.block_scale(codes.output).value();
    for (unsigned i = 0; i < 16; ++i) {
      const double s = e2m1_doubled(nibble_at(piece.source_packed, block, i)) / 2.0 * source_scale;
      const double o = e2m1_doubled(nibble_at(piece.output_packed, block, i)) / 2.0 * output_scale;
      if (std::isnan(o)) ++result.counts.nan_values;
      if (s == o) continue;
      result.counts.error.max_abs_error = std::max(result.counts.error.max_abs_error, std::abs(s - o));
      if (first_different < 0) first_different = static_cast<std::int64_t>(block);
    }
    ++result.counts.decoded_blocks16;
  }
  return first_different;
}

// The slow pass: every element goes into the histogram.
void measure(const ModulePiece& piece, const ModuleNames& names, PieceResult& result) {
  PairHistogram histogram(piece.source, piece.output);
  std::vector<std::uint64_t> bad_blocks;
  std::uint64_t bad_count = 0;
  for (std::uint64_t block = 0; block < piece.blocks(); ++block) {
    const BlockCodes codes = block_codes(piece, block);
    const std::byte* source = piece.source_packed.data() + block * 8;
    const std::byte* output = piece.output_packed.data() + block * 8;
    const BlockJudgement judgement = histogram.add(codes.source, codes.output, source, output);
    if (!judgement.exact) {
      ++result.counts.changed_blocks16;
    } else {
      const std::uint64_t s = word_at(piece.source_packed, block), o = word_at(piece.output_packed, block);
      const bool same = ((s ^ o) & ~(negative_zeros(s) << 3)) == 0 &&
                        (codes.output == histogram.expected().code[codes.source] || (s & kMagnitudes) == 0);
      ++(same ? result.counts.equal_blocks16 : result.counts.rescaled_blocks16);
    }
    if (judgement.acceptable) continue;
    ++bad_count;
    if (bad_blocks.size() < kLocatedBlocks) bad_blocks.push_back(block);
  }
  result.counts.decoded_blocks16 = piece.blocks();
  result.counts.error = histogram.error();
  result.counts.nan_values = histogram.nan_values();
  result.measured = true;
  if (bad_count > 0) diagnose(piece, names, histogram, bad_blocks, bad_count, result.failures);
}

// Whether equality, if there is any, shows in nibbles and codes. Otherwise values must be compared from the
// start.
bool can_be_equal(const ModulePiece& piece) {
  if (!piece.whole) return false;  // a later piece may need the sums of this one
  return piece.source.tensor_factor == piece.output.tensor_factor ||
         (piece.source.tensor_factor.is_power_of_two() && piece.output.tensor_factor.is_power_of_two());
}

}  // namespace

PieceResult compare_piece(const ModulePiece& piece, const ModuleNames& names) {
  PieceResult result;
  const ExpectedCodes expected(piece.source, piece.output);
  const bool equal = prove_equal(piece, expected, result);
  if (!equal || !can_be_equal(piece)) {
    measure(piece, names, result);
    return result;
  }
  result.counts.equal_blocks16 = piece.blocks();
  const std::int64_t different = decode_some(piece, result);
  if (different >= 0)
    report_block(piece, names, expected, static_cast<std::uint64_t>(different), result.failures);
  return result;
}

void add_piece(VerifiedModule& module, const PieceResult& piece, const ScaleRule& source_rule) {
  const VerifiedModule& counts = piece.counts;
  module.block_elements = source_rule.block_elements();
  module.source_negative_zeros += counts.source_negative_zeros;
  module.normalised_negative_zeros += counts.normalised_negative_zeros;
  module.equal_blocks16 += counts.equal_blocks16;
  module.rescaled_blocks16 += counts.rescaled_blocks16;
  module.changed_blocks16 += counts.changed_blocks16;
  module.decoded_blocks16 += counts.decoded_blocks16;
  module.nan_values += counts.nan_values;
  module.measured = piece.measured;
  module.error.add(counts.error);
  module.failed = module.failed || piece.failures.count > 0;
  for (unsigned c = 0; c < 256; ++c) {
    const auto code = static_cast<std::uint8_t>(c);
    module.blocks += piece.active[c] + piece.zero[c];
    module.zero_blocks += piece.zero[c];
    if (source_rule.is_mxfp4() && c == 0) module.byte_00_blocks += piece.active[c] + piece.zero[c];
    if (source_rule.is_mxfp4() && c == 255) module.byte_ff_blocks += piece.active[c] + piece.zero[c];
    if (piece.active[c] == 0 || !source_rule.is_valid(code)) continue;
    const Fraction scale = source_rule.block_scale(code);
    if (scale.numerator == 0) continue;
    const auto exponent = static_cast<std::int16_t>(floor_log2(scale));
    auto& bins = module.active_by_exponent;
    const auto at = std::lower_bound(bins.begin(), bins.end(), exponent,
                                     [](const auto& bin, std::int16_t value) { return bin.first < value; });
    if (at != bins.end() && at->first == exponent) {
      at->second += piece.active[c];
    } else {
      bins.insert(at, {exponent, piece.active[c]});
    }
  }
}

}  // namespace perigee::verifying
