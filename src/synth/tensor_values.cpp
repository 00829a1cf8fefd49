// Trunk values are drawn from tables of 4096 BF16 numbers, four per random word, because two thirds of a
// small checkpoint and 1.3 GB of every real layer are trunk.
#include "synth/tensor_values.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "checkpoint/tensor_name.h"
#include "synth/expert_values.h"
#include "synth/random.h"

namespace perigee::synth {
namespace {

constexpr std::uint64_t kUnitBytes = 16;
constexpr std::uint64_t kTableSize = 4096;
constexpr std::uint64_t kTableKey = 0x5067'5461'626C'6573u;

// Calls units(first, count, out) for whole units of 16 bytes, and cuts those at the two ends of the range.
template <typename Units>
void fill_units(std::uint64_t begin, std::span<std::byte> out, const Units& units) {
  while (!out.empty()) {
    const std::uint64_t offset = begin % kUnitBytes;
    const std::uint64_t whole = out.size() / kUnitBytes;
    std::uint64_t done = whole * kUnitBytes;
    if (offset == 0 && whole > 0) {
      units(begin / kUnitBytes, whole, out.data());
    } else {
      std::array<std::byte, kUnitBytes> unit;
      units(begin / kUnitBytes, 1, unit.data());
      done = std::min<std::uint64_t>(kUnitBytes - offset, out.size());
      std::memcpy(out.data(), unit.data() + offset, done);
    }
    begin += done;
    out = out.subspan(done);
  }
}

// Truncation is enough: these numbers are made up.
std::uint16_t to_bf16(double value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16);
}

void bf16_units(const std::vector<std::uint16_t>& table, std::uint64_t key, std::uint64_t first,
                std::uint64_t count, std::byte* out) {
  for (std::uint64_t word = first * 2; word < (first + count) * 2; ++word, out += kUnitBytes / 2) {
    const std::uint64_t bits = random_bits(key, word);
    const std::array<std::uint16_t, 4> values = {table[bits % kTableSize], table[(bits >> 16) % kTableSize],
                                                 table[(bits >> 32) % kTableSize],
                                                 table[(bits >> 48) % kTableSize]};
    std::memcpy(out, values.data(), sizeof(values));
  }
}

// The table's numbers with random bits below them.
void f32_units(const std::vector<std::uint16_t>& table, std::uint64_t key, std::uint64_t first,
               std::uint64_t count, std::byte* out) {
  for (std::uint64_t element = first * 4; element < (first + count) * 4;
       ++element, out += sizeof(std::uint32_t)) {
    const std::uint64_t bits = random_bits(key, element);
    const std::uint32_t value =
        std::uint32_t{table[bits % kTableSize]} << 16 | static_cast<std::uint32_t>(bits >> 48);
    std::memcpy(out, &value, sizeof(value));
  }
}

bool is_gain(std::string_view name) {
  return name.ends_with("norm.weight") || name.ends_with("norm0.weight") || name.ends_with("norm1.weight");
}

// A quiet and a signalling NaN, both with a payload that a copy must keep.
constexpr std::array<std::uint8_t, 4> kTwoNans = {0xC1, 0x7F, 0x85, 0xFF};

void overwrite_start(std::span<const std::uint8_t> bytes, std::uint64_t begin, std::span<std::byte> out) {
  for (std::uint64_t i = begin; i < bytes.size() && i - begin < out.size(); ++i)
    out[i - begin] = std::byte{bytes[i]};
}

}  // namespace

TensorValues::TensorValues(const K3Config& config, const SynthOptions& options)
    : heads_(config.kda_num_heads),
      seed_(options.seed),
      stress_(options.experts),
      nan_(options.nan),
      a_log_tail_(options.a_log_tail) {
  for (std::uint64_t i = 0; i < kTableSize; ++i) {
    const double value = normal(kTableKey, i);
    weights_.push_back(to_bf16(value == 0 ? 0x1p-12 : value / 64));
    gains_.push_back(to_bf16(1 + value / 16));
  }
}

void TensorValues::fill(const TensorInfo& tensor, std::uint64_t begin, std::span<std::byte> out) const {
  const TensorName name = parse_tensor_name(tensor.name);
  if (name.tensor_class == TensorClass::kExpert) {
    fill_expert(tensor, name, begin, out);
  } else {
    fill_trunk(tensor, begin, out);
  }
}

void TensorValues::fill_expert(const TensorInfo& tensor, const TensorName& name, std::uint64_t begin,
                               std::span<std::byte> out) const {
  const bool packed = name.part == Part::kWeightPacked;
  const std::uint64_t groups_per_row = packed ? tensor.shape.at(1) / kUnitBytes : tensor.shape.at(1);
  const ExpertValues values(library_, stress_, name, stream_key(seed_, name.module), groups_per_row);
  fill_units(begin, out, [&](std::uint64_t first, std::uint64_t count, std::byte* to) {
    packed ? values.packed_units(first, count, to) : values.scale_units(first, count, to);
  });
}

void TensorValues::fill_trunk(const TensorInfo& tensor, std::uint64_t begin, std::span<std::byte> out) const {
  const std::uint64_t key = stream_key(seed_, tensor.name);
  if (tensor.name.ends_with(".A_log")) return fill_a_log(key, tensor, begin, out);
  const std::vector<std::uint16_t>& table = is_gain(tensor.name) ? gains_ : weights_;
  const bool wide = tensor.dtype == DType::kF32;
  fill_units(begin, out, [&](std::uint64_t first, std::uint64_t count, std::byte* to) {
    wide ? f32_units(table, key, first, count, to) : bf16_units(table, key, first, count, to);
  });
  if (nan_ && tensor.name.ends_with("self_attn.o_proj.weight")) overwrite_start(kTwoNans, begin, out);
}

// One positive value per head, then zeros (docs/formats.md).
void TensorValues::fill_a_log(std::uint64_t key, const TensorInfo& tensor, std::uint64_t begin,
                              std::span<std::byte> out) const {
  std::vector<float> values(tensor.elements(), 0.0F);
  for (std::uint64_t head = 0; head < heads_; ++head) {
    values[head] = static_cast<float>(random_bits(key, head) >> 40) * 0x1p-23F + 0x1p-10F;
  }
  if (a_log_tail_) values.back() = 0.5F;
  std::memcpy(out.data(), std::as_bytes(std::span(values)).data() + begin, out.size());
}

}  // namespace perigee::synth
