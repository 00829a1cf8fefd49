#include "verify/pairs.h"

#include <algorithm>
#include <cmath>

namespace perigee::verifying {
namespace {

constexpr std::array<double, 8> kGridPoints = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

// How far above 6 a value may be that was clipped to 6: a minmax scale rounds down by at most 1/16 (or, as a
// subnormal, by a third), a search for the least squared error shrinks it to 0.8.
constexpr double kLargestClipped = 8.1;
constexpr double kLargestClippedSubnormal = 9.1;
// Libraries divide in F32 or bf16 before they round: near a tie both neighbours are right.
constexpr double kQuotientSlack = 1.0 / 128;

bool is_zero_code(unsigned code) {
  return (code & 7) == 0;
}

// a * x == b * y for E2M1 codes a, b.
bool equal_values(unsigned a, const Fraction& x, unsigned b, const Fraction& y) {
  const auto sized = [](unsigned code, const Fraction& scale) {
    const auto doubled = static_cast<std::uint64_t>(std::abs(e2m1_doubled(code)));
    if (doubled == 0 || scale.numerator == 0) return Fraction{0, 1, 0};
    const int twos = std::countr_zero(doubled);
    return Fraction{scale.numerator * (doubled >> twos), scale.denominator, scale.exponent + twos};
  };
  const Fraction left = sized(a, x), right = sized(b, y);
  if (!(left == right)) return false;
  return left.numerator == 0 || (a & 8) == (b & 8);
}

// Could rounding the quotient (source value / output scale) to E2M1 give code b?
bool is_near(double quotient, unsigned b, double largest) {
  if (std::abs(quotient) > largest) return false;
  double best = kGridPoints[7];
  for (const double point : kGridPoints) best = std::min(best, std::abs(std::abs(quotient) - point));
  const double found = e2m1_doubled(b) / 2.0;
  return std::abs(quotient - found) <= best + std::abs(quotient) * kQuotientSlack;
}

// output - source of one element in real units, exact where the terms fit 53 bits: both are brought to the
// common denominator before they are subtracted.
double difference(unsigned a, const Fraction& x, unsigned b, const Fraction& y) {
  const double left =
      std::ldexp(e2m1_doubled(a) * static_cast<double>(x.numerator) * static_cast<double>(y.denominator),
                 x.exponent - y.exponent);
  const double right =
      e2m1_doubled(b) * static_cast<double>(y.numerator) * static_cast<double>(x.denominator);
  const double denominator = static_cast<double>(x.denominator) * static_cast<double>(y.denominator);
  return std::ldexp((right - left) / denominator, y.exponent - 1);
}

}  // namespace

ExpectedCodes::ExpectedCodes(const ScaleRule& source, const ScaleRule& output) {
  std::array<Fraction, 256> of_output;
  for (unsigned o = 0; o < 256; ++o) {
    const auto output_code = static_cast<std::uint8_t>(o);
    if (output.is_valid(output_code)) of_output[o] = output.block_scale(output_code);
  }
  code.fill(kNoCode);
  for (unsigned s = 0; s < 256; ++s) {
    const auto source_code = static_cast<std::uint8_t>(s);
    if (!source.is_valid(source_code)) continue;
    const Fraction wanted = source.block_scale(source_code);
    for (unsigned o = 0; o < 256 && code[s] == kNoCode; ++o) {
      if (output.is_valid(static_cast<std::uint8_t>(o)) && of_output[o] == wanted)
        code[s] = static_cast<std::int16_t>(o);
    }
  }
}

PairHistogram::PairHistogram(const ScaleRule& source, const ScaleRule& output)
    : source_(source), output_(output), expected_(source, output), slot_(65536, 0) {}

CodePair& PairHistogram::pair(std::uint8_t source_code, std::uint8_t output_code) {
  std::uint32_t& slot = slot_[source_code * 256u + output_code];
  if (slot == 0) {
    pairs_.push_back(judge(source_code, output_code, output_, expected_));
    slot = static_cast<std::uint32_t>(pairs_.size());
  }
  return pairs_[slot - 1];
}

BlockJudgement PairHistogram::add(std::uint8_t source_code, std::uint8_t output_code,
                                  const std::byte* source_packed, const std::byte* output_packed) {
  CodePair& pair = this->pair(source_code, output_code);
  ++pair.blocks;
  unsigned exact = 1, acceptable = 1;
  for (unsigned i = 0; i < 8; ++i) {
    const auto s = std::to_integer<unsigned>(source_packed[i]),
               o = std::to_integer<unsigned>(output_packed[i]);
    const unsigned a = s & 15, b = o & 15, c = s >> 4, d = o >> 4;
    ++pair.count[a][b];
    ++pair.count[c][d];
    exact &= (static_cast<unsigned>(pair.exact[a]) >> b) & (static_cast<unsigned>(pair.exact[c]) >> d);
    acceptable &=
        (static_cast<unsigned>(pair.acceptable[a]) >> b) & (static_cast<unsigned>(pair.acceptable[c]) >> d);
  }
  return {exact != 0, acceptable != 0};
}

CodePair PairHistogram::judge(std::uint8_t source_code, std::uint8_t output_code, const ScaleRule& output,
                              const ExpectedCodes& expected) const {
  CodePair pair;
  pair.source_code = source_code;
  pair.output_code = output_code;
  if (!output.is_valid(output_code)) return pair;  // nothing is right under a NaN
  const bool source_valid = source_.is_valid(source_code);
  const Fraction x = source_valid ? source_.block_scale(source_code) : Fraction{};
  const Fraction y = output.block_scale(output_code);
  pair.same_scale = source_valid && x == y;
  // A block that a power-of-two factor can hold exactly has no reason to be rounded.
  const bool must_be_exact = output.tensor_factor.is_power_of_two() && expected.code[source_code] != kNoCode;
  const bool may_round = source_valid && !must_be_exact && y.numerator != 0;
  const double ratio = may_round ? x.value() / y.value() : 0;
  const bool subnormal = !output.is_mxfp4() && output_code < 8;
  const double largest = subnormal ? kLargestClippedSubnormal : kLargestClipped;
  for (unsigned a = 0; a < 16; ++a) {
    for (unsigned b = 0; b < 16; ++b) {
      const bool exact =
          is_zero_code(a) ? is_zero_code(b) || y.numerator == 0 : source_valid && equal_values(a, x, b, y);
      const bool near = may_round && is_near(e2m1_doubled(a) / 2.0 * ratio, b, largest);
      if (exact) pair.exact[a] = static_cast<std::uint16_t>(pair.exact[a] | 1u << b);
      if (exact || near) pair.acceptable[a] = static_cast<std::uint16_t>(pair.acceptable[a] | 1u << b);
    }
  }
  return pair;
}

ErrorSums PairHistogram::error() const {
  ErrorSums sums;
  for (const CodePair& pair : pairs_) {
    if (!output_.is_valid(pair.output_code) || !source_.is_valid(pair.source_code)) continue;
    const Fraction x = source_.block_scale(pair.source_code), y = output_.block_scale(pair.output_code);
    const double x_value = x.value() / 2, y_value = y.value() / 2;
    for (unsigned a = 0; a < 16; ++a) {
      for (unsigned b = 0; b < 16; ++b) {
        if (pair.count[a][b] == 0) continue;
        const double n = pair.count[a][b];
        const double s = e2m1_doubled(a) * x_value, o = e2m1_doubled(b) * y_value;
        const double e = (pair.exact[a] >> b & 1) != 0 ? 0 : difference(a, x, b, y);
        sums.source_squared += n * s * s;
        sums.output_squared += n * o * o;
        sums.product += n * s * o;
        sums.error_squared += n * e * e;
        sums.max_abs_error = std::max(sums.max_abs_error, std::abs(e));
        sums.elements += pair.count[a][b];
      }
    }
  }
  return sums;
}

std::uint64_t PairHistogram::nan_values() const {
  std::uint64_t total = 0;
  for (const CodePair& pair : pairs_) {
    if (!output_.is_valid(pair.output_code)) total += pair.blocks * 16;
  }
  return total;
}

double PairHistogram::bad_share(const Fraction& output_factor) const {
  ScaleRule output = output_;
  output.tensor_factor = output_factor;
  const ExpectedCodes expected(source_, output);
  std::uint64_t bad = 0, all = 0;
  for (const CodePair& pair : pairs_) {
    const CodePair judged = judge(pair.source_code, pair.output_code, output, expected);
    for (unsigned a = 0; a < 16; ++a) {
      if (is_zero_code(a)) continue;
      for (unsigned b = 0; b < 16; ++b) {
        all += pair.count[a][b];
        if ((judged.acceptable[a] >> b & 1) == 0) bad += pair.count[a][b];
      }
    }
  }
  return all == 0 ? 0 : static_cast<double>(bad) / static_cast<double>(all);
}

}  // namespace perigee::verifying
