#include "synth/expert_values.h"

#include <bit>
#include <cstring>

#include "synth/random.h"

namespace perigee::synth {
namespace {

static_assert(std::endian::native == std::endian::little, "packed groups are stored as little-endian words");

constexpr std::uint64_t kUnitBytes = 16;
constexpr std::int32_t kE8m0Bias = 127;
// Deviations of rows are (1…2) * 2^-8 … 2^-6, those of trained weights.
constexpr std::int32_t kSmallestRowExponent = -8;
constexpr std::uint64_t kRowExponents = 3;
// The largest scale exponent of a module whose span is prescribed.
constexpr std::int32_t kSpanTop = -7;

// Groups with a prescribed role, so that options hold for every module and do not cancel each other.
enum Role : std::uint64_t { kTopOfSpan, kBottomOfSpan, kByte00, kByteFf, kByteFfZero, kFirstFree };

constexpr std::uint64_t kMagnitudes = 0x7777'7777'7777'7777u;
constexpr std::uint64_t kSigns = 0x8888'8888'8888'8888u;

// The sign bit of every nibble that is not zero.
constexpr std::uint64_t nonzero_signs(std::uint64_t codes) {
  return (codes + kMagnitudes) & kSigns;
}

ExpertStress stress_of(const ExpertStress& stress, std::int32_t expert) {
  if (static_cast<std::uint64_t>(expert) % stress.every == 0) return stress;
  return {};
}

}  // namespace

ExpertValues::ExpertValues(const GroupLibrary& library, const ExpertStress& stress, const TensorName& name,
                           std::uint64_t key, std::uint64_t groups_per_row)
    : library_(library),
      stress_(stress_of(stress, name.expert)),
      key_(key),
      row_key_(substream(key, 1)),
      sign_key_(substream(key, 2)),
      stress_key_(substream(key, 3)),
      groups_per_row_(groups_per_row),
      lowered_(name.projection == Projection::kW3 ? static_cast<std::int32_t>(stress_.uneven_pair) : 0),
      all_zero_(stress_.all_zero == name.projection) {}

ExpertValues::Row ExpertValues::row(std::uint64_t number) const {
  const std::uint64_t bits = random_bits(row_key_, number);
  return {static_cast<unsigned>(bits % GroupLibrary::kDeviations),
          kSmallestRowExponent + static_cast<std::int32_t>((bits >> 32) % kRowExponents)};
}

const MxGroup& ExpertValues::group(const Row& row, std::uint64_t number) const {
  return library_.group(row.deviation,
                        static_cast<unsigned>(random_bits(key_, number) % GroupLibrary::kGroups));
}

bool ExpertValues::is_zero(std::uint64_t group) const {
  if (all_zero_) return true;
  if (group == kByteFfZero) return stress_.byte_ff_zero;
  if (stress_.zero_groups == 0 || group < kFirstFree) return false;
  return chance(random_bits(stress_key_, group), stress_.zero_groups);
}

// Random signs for 16 codes. Zeros are +0 but for the fraction that the options ask for.
std::uint64_t ExpertValues::signs(std::uint64_t codes, std::uint64_t bits, std::uint64_t word) const {
  std::uint64_t signs = bits & nonzero_signs(codes);
  if (stress_.negative_zeros == 0) return signs;
  std::uint64_t zeros = kSigns & ~nonzero_signs(codes);
  for (; zeros != 0; zeros &= zeros - 1) {
    const auto bit = static_cast<std::uint64_t>(std::countr_zero(zeros));
    if (chance(random_bits(sign_key_ ^ kMagnitudes, word * 64 + bit), stress_.negative_zeros)) {
      signs |= std::uint64_t{1} << bit;
    }
  }
  return signs;
}

void ExpertValues::packed_units(std::uint64_t first, std::uint64_t count, std::byte* out) const {
  std::uint64_t column = first % groups_per_row_;
  Row current = row(first / groups_per_row_);
  for (std::uint64_t number = first; number < first + count; ++number, ++column, out += kUnitBytes) {
    if (column == groups_per_row_) {
      column = 0;
      current = row(number / groups_per_row_);
    }
    std::array<std::uint64_t, 2> codes = group(current, number).codes;
    if (is_zero(number)) codes = {0, 0};
    const std::uint64_t bits = random_bits(sign_key_, number);
    codes[0] |= signs(codes[0], bits, number * 2);
    codes[1] |= signs(codes[1], bits << 1, number * 2 + 1);
    std::memcpy(out, codes.data(), kUnitBytes);
  }
}

unsigned ExpertValues::scale_byte(const Row& row, std::uint64_t number) const {
  if (number == kByteFfZero && stress_.byte_ff_zero) return 0xFF;
  std::int32_t exponent = row.exponent + group(row, number).exponent;
  if (stress_.span) {
    const auto span = static_cast<std::int32_t>(*stress_.span);
    const auto below =
        static_cast<std::int32_t>((random_bits(stress_key_, number) & 0xFFFF) % (*stress_.span + 1));
    exponent = kSpanTop - (number == kTopOfSpan ? 0 : number == kBottomOfSpan ? span : below);
  }
  const auto kept = static_cast<unsigned>(kE8m0Bias + exponent - lowered_);
  if (is_zero(number)) return zero_scale_byte(kept, number);
  if (number == kByte00 && stress_.byte_00) return 0x00;
  if (number == kByteFf && stress_.byte_ff) return 0xFF;
  return kept;
}

unsigned ExpertValues::zero_scale_byte(unsigned kept, std::uint64_t number) const {
  constexpr unsigned kFiniteBytes = 255;
  switch (stress_.zero_group_scale) {
    case ZeroGroupScale::kKept:
      return kept;
    case ZeroGroupScale::kZero:
      return 0;
    case ZeroGroupScale::kRandom:
      return static_cast<unsigned>(random_bits(stress_key_ ^ kSigns, number) % kFiniteBytes);
  }
  return kept;
}

void ExpertValues::scale_units(std::uint64_t first, std::uint64_t count, std::byte* out) const {
  std::uint64_t number = first * kUnitBytes;
  const std::uint64_t end = number + count * kUnitBytes;
  std::uint64_t column = number % groups_per_row_;
  Row current = row(number / groups_per_row_);
  for (; number < end; ++number, ++column, ++out) {
    if (column == groups_per_row_) {
      column = 0;
      current = row(number / groups_per_row_);
    }
    *out = static_cast<std::byte>(scale_byte(current, number));
  }
}

}  // namespace perigee::synth
