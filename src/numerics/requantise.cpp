// Requantisation by tables: the kernels look up a block scale and a nibble map by (scale byte, largest nibble
// of the block). Only kFourOverSix can depend on more than that; where it does, both candidates are kept and
// the choice is made block by block from their errors.
#include "numerics/requantise.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>

#include "base/error.h"
#include "numerics/kernels.h"
#include "numerics/requant_rule.h"

namespace perigee {
namespace {

constexpr std::size_t kGroupBytes = 16;
constexpr std::size_t kBlockBytes = 8;
constexpr std::size_t kChunkGroups = 256;

// Errors of the two candidates of keys where neither is better for every block.
struct OpenChoice {
  BlockMaps second;
  bool is_open[BlockMaps::kKeys];
  double error[2][BlockMaps::kKeys][8];  // squared, by magnitude code
  bool any = false;
};

std::size_t key_of(std::uint8_t byte, std::uint8_t code) {
  return std::size_t{8} * byte + code;
}

std::uint8_t nibble_at(const std::uint8_t* packed, std::size_t element) {
  return element % 2 == 0 ? packed[element / 2] & 15 : packed[element / 2] >> 4;
}

void set_nibble(std::uint8_t* packed, std::size_t element, std::uint8_t nibble) {
  std::uint8_t& pair = packed[element / 2];
  pair = static_cast<std::uint8_t>(element % 2 == 0 ? (pair & 0xF0) | nibble : (pair & 0x0F) | nibble << 4);
}

double squared_error(const RequantRule& rule, std::uint8_t scale, std::uint8_t nibble, float source) {
  const double error = static_cast<double>(source) - decoded_value(rule, scale, nibble);
  return error * error;
}

void fill_map(const RequantRule& rule, std::uint8_t byte, std::uint8_t largest, std::uint8_t scale,
              BlockMaps& maps) {
  const std::size_t key = key_of(byte, largest);
  const bool verbatim = keeps_nibbles(rule, byte, source_value(largest, byte));
  maps.scale[key] = scale;
  for (std::uint8_t nibble = 0; nibble < 16; ++nibble) {
    // Magnitudes above the largest cannot occur in such a block.
    const bool occurs = (nibble & 7) <= largest;
    maps.nibbles[key][nibble] =
        verbatim || !occurs ? nibble : requantise_value(rule, scale, source_value(nibble, byte));
  }
}

void fill_errors(const RequantRule& rule, std::uint8_t byte, std::uint8_t largest, const BlockMaps& maps,
                 double (&errors)[BlockMaps::kKeys][8]) {
  const std::size_t key = key_of(byte, largest);
  for (std::uint8_t code = 0; code <= largest; ++code) {
    errors[key][code] =
        squared_error(rule, maps.scale[key], maps.nibbles[key][code], source_value(code, byte));
  }
}

// Puts the better candidate into `first` where that does not depend on the block's other elements. A block
// with this key holds `largest` itself, so an error there is an error of every such block.
void settle_choice(std::uint8_t byte, std::uint8_t largest, BlockMaps& first, OpenChoice& choice) {
  const std::size_t key = key_of(byte, largest);
  const auto& errors = choice.error;
  const bool first_is_exact =
      std::all_of(errors[0][key], errors[0][key] + largest + 1, [](double e) { return e == 0; });
  const bool second_is_exact =
      std::all_of(errors[1][key], errors[1][key] + largest + 1, [](double e) { return e == 0; });
  if (first_is_exact || first.scale[key] == choice.second.scale[key]) return;
  if (second_is_exact && errors[0][key][largest] > 0) {
    first.scale[key] = choice.second.scale[key];
    std::copy_n(choice.second.nibbles[key], 16, first.nibbles[key]);
    return;
  }
  choice.is_open[key] = true;
  choice.any = true;
}

void requantise_block_reference(const RequantRule& rule, const std::uint8_t* packed, std::uint8_t byte,
                                std::uint8_t* packed_out, std::uint8_t* scale_out) {
  float values[16];
  float largest = 0;
  for (std::size_t i = 0; i < 16; ++i) {
    values[i] = source_value(nibble_at(packed, i), byte);
    largest = std::max(largest, std::fabs(values[i]));
  }
  const ScaleCandidates candidates = scale_candidates(rule, byte, largest);
  const bool verbatim = keeps_nibbles(rule, byte, largest);
  std::uint8_t nibbles[2][16];
  double errors[2] = {0, 0};
  for (std::size_t candidate = 0; candidate < 2; ++candidate) {
    for (std::size_t i = 0; i < 16; ++i) {
      const std::uint8_t scale = candidates.code[candidate];
      nibbles[candidate][i] = verbatim ? nibble_at(packed, i) : requantise_value(rule, scale, values[i]);
      errors[candidate] += squared_error(rule, scale, nibbles[candidate][i], values[i]);
    }
  }
  const std::size_t best = errors[1] < errors[0] ? 1 : 0;
  *scale_out = candidates.code[best];
  for (std::size_t i = 0; i < 16; ++i) set_nibble(packed_out, i, nibbles[best][i]);
}

void check_sizes(std::span<const std::byte> packed, std::span<const std::byte> scales,
                 std::span<const std::byte> packed_out, std::span<const std::byte> blocks_out) {
  if (packed.size() / kGroupBytes != scales.size() || packed.size() % kGroupBytes != 0 ||
      packed_out.size() != packed.size() || blocks_out.size() / 2 != scales.size() ||
      blocks_out.size() % 2 != 0) {
    fail(ErrorCode::kInternal,
         "requantisation of {} bytes of nibbles with {} group scales into {} bytes with {} block scales: "
         "sizes do not "
         "fit together",
         packed.size(), scales.size(), packed_out.size(), blocks_out.size());
  }
}

// One call's worth of pointers, advanced chunk by chunk.
struct Chunk {
  const std::uint8_t* packed;
  const std::uint8_t* scales;
  std::uint8_t* packed_out;
  std::uint8_t* blocks_out;
  std::size_t groups;
  std::uint8_t codes[2 * kChunkGroups];  // largest magnitude per block
};

double block_error(const double (&errors)[8], const std::uint8_t* packed) {
  double sum = 0;
  for (std::size_t i = 0; i < 16; ++i) sum += errors[nibble_at(packed, i) & 7];
  return sum;
}

void settle_open_blocks(const OpenChoice& open, const Chunk& chunk) {
  for (std::size_t block = 0; block < 2 * chunk.groups; ++block) {
    const std::size_t key = key_of(chunk.scales[block / 2], chunk.codes[block]);
    if (!open.is_open[key]) continue;
    const std::uint8_t* packed = chunk.packed + kBlockBytes * block;
    if (block_error(open.error[1][key], packed) >= block_error(open.error[0][key], packed)) continue;
    chunk.blocks_out[block] = open.second.scale[key];
    for (std::size_t i = 0; i < 16; ++i) {
      set_nibble(chunk.packed_out + kBlockBytes * block, i, open.second.nibbles[key][nibble_at(packed, i)]);
    }
  }
}

}  // namespace

struct Requantiser::Tables {
  RequantRule rule;
  BlockMaps maps;
  std::unique_ptr<OpenChoice> choice;  // kFourOverSix only

  void fill(std::uint8_t byte, std::uint8_t largest) {
    const ScaleCandidates candidates = scale_candidates(rule, byte, source_value(largest, byte));
    fill_map(rule, byte, largest, candidates.code[0], maps);
    if (choice == nullptr) return;
    fill_map(rule, byte, largest, candidates.code[1], choice->second);
    fill_errors(rule, byte, largest, maps, choice->error[0]);
    fill_errors(rule, byte, largest, choice->second, choice->error[1]);
    settle_choice(byte, largest, maps, *choice);
  }

  std::uint8_t convert_chunk(Chunk& chunk, const Kernels& kernels) const {
    kernels.block_codes(chunk.packed, 2 * chunk.groups, chunk.codes);
    const std::uint8_t seen = kernels.remap_blocks(chunk.packed, chunk.scales, chunk.codes, chunk.groups,
                                                   maps, chunk.packed_out, chunk.blocks_out);
    if (choice != nullptr && choice->any) settle_open_blocks(*choice, chunk);
    return seen;
  }
};

Requantiser::Requantiser(RequantMethod method, const Mxfp4Scan& set) : tables_(std::make_unique<Tables>()) {
  tables_->rule = make_requant_rule(method, set);
  if (method == RequantMethod::kFourOverSix) tables_->choice = std::make_unique<OpenChoice>();
  std::fill_n(tables_->maps.scale, BlockMaps::kKeys, BlockMaps::kNoScale);
  for (std::size_t byte = 0; byte < 256; ++byte) {
    if (set.active[byte] == 0 && set.zero[byte] == 0) continue;
    for (std::uint8_t code = 0; code <= set.max_code[byte]; ++code) {
      tables_->fill(static_cast<std::uint8_t>(byte), code);
    }
  }
}

Requantiser::~Requantiser() = default;
Requantiser::Requantiser(Requantiser&&) noexcept = default;

float Requantiser::scale_2() const {
  return tables_->rule.scale_2;
}

float Requantiser::global_scale() const {
  if (!std::isfinite(tables_->rule.global_scale)) {
    fail(ErrorCode::kUnsupported,
         "the values of a set are so small that the divisor for tensor scale {} is no float; use the "
         "modelopt layout",
         tables_->rule.scale_2);
  }
  return tables_->rule.global_scale;
}

void Requantiser::convert(std::span<const std::byte> packed, std::span<const std::byte> scales,
                          std::span<std::byte> packed_out, std::span<std::byte> blocks_out) const {
  convert(packed, scales, packed_out, blocks_out, best_kernels());
}

void Requantiser::convert(std::span<const std::byte> packed, std::span<const std::byte> scales,
                          std::span<std::byte> packed_out, std::span<std::byte> blocks_out,
                          const Kernels& kernels) const {
  check_sizes(packed, scales, packed_out, blocks_out);
  Chunk chunk{};
  for (std::size_t first = 0; first < scales.size(); first += kChunkGroups) {
    chunk.packed = reinterpret_cast<const std::uint8_t*>(packed.data()) + first * kGroupBytes;
    chunk.scales = reinterpret_cast<const std::uint8_t*>(scales.data()) + first;
    chunk.packed_out = reinterpret_cast<std::uint8_t*>(packed_out.data()) + first * kGroupBytes;
    chunk.blocks_out = reinterpret_cast<std::uint8_t*>(blocks_out.data()) + 2 * first;
    chunk.groups = std::min(kChunkGroups, scales.size() - first);
    if ((tables_->convert_chunk(chunk, kernels) & BlockMaps::kNoScale) != 0) {
      fail(ErrorCode::kInternal,
           "a block near group {} has a scale byte or nibble that the scan of its scale-sharing set did not "
           "see",
           first);
    }
  }
}

void Requantiser::convert_reference(std::span<const std::byte> packed, std::span<const std::byte> scales,
                                    std::span<std::byte> packed_out, std::span<std::byte> blocks_out) const {
  check_sizes(packed, scales, packed_out, blocks_out);
  for (std::size_t block = 0; block < blocks_out.size(); ++block) {
    requantise_block_reference(tables_->rule,
                               reinterpret_cast<const std::uint8_t*>(packed.data()) + kBlockBytes * block,
                               std::to_integer<std::uint8_t>(scales[block / 2]),
                               reinterpret_cast<std::uint8_t*>(packed_out.data()) + kBlockBytes * block,
                               reinterpret_cast<std::uint8_t*>(blocks_out.data()) + block);
  }
}

}  // namespace perigee
