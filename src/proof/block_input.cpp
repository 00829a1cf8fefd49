#include "proof/block_input.h"

#include "numerics/bf16.h"

namespace perigee {
namespace {

constexpr std::uint64_t kLargeChannelPeriod = 251;
constexpr std::uint64_t kLargeChannel = 7;
constexpr float kLargeFactor = 30;
constexpr float kSqrtOf3 = 1.7320508F;

// The finaliser of splitmix64: every number in, every number out.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
  x = (x ^ x >> 27) * 0x94D049BB133111EB;
  return x ^ x >> 31;
}

// Four uniform numbers of 16 bits, summed and centred: exact in float. Their sum has variance 1/3.
float about_normal(std::uint64_t seed) {
  const std::uint64_t bits = mixed(seed);
  std::int32_t sum = -2 * 65535;
  for (int part = 0; part < 4; ++part) sum += static_cast<std::int32_t>(bits >> (16 * part) & 0xFFFF);
  return static_cast<float>(sum) / 65536.0F * kSqrtOf3;
}

Tensor source(std::uint64_t number, std::size_t first, std::size_t count, std::size_t width) {
  Tensor rows(count, width);
  for (std::size_t row = 0; row < count; ++row) {
    const std::uint64_t row_seed = mixed(number << 32 | (first + row));
    for (std::size_t c = 0; c < width; ++c) {
      const float factor = c % kLargeChannelPeriod == kLargeChannel ? kLargeFactor : 1.0F;
      rows[row][c] = round_to_bf16(factor * about_normal(row_seed + c));
    }
  }
  return rows;
}

}  // namespace

ResidualStream block_input(const K3Config& config, std::uint64_t layer, std::size_t first,
                           std::size_t count) {
  ResidualStream stream;
  const std::uint64_t blocks = (layer + config.attn_res_block_size - 1) / config.attn_res_block_size;
  stream.prefix = source(0, first, count, config.hidden_size);
  for (std::uint64_t b = 1; b <= blocks; ++b)
    stream.bank.push_back(source(b, first, count, config.hidden_size));
  return stream;
}

}  // namespace perigee
