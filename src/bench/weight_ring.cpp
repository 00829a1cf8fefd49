#include "bench/weight_ring.h"

#include <cstring>

#include "base/error.h"
#include "base/thread_pool.h"
#include "numerics/bf16.h"
#include "synth/random.h"

namespace perigee {
namespace {

// Values and scales of every matrix begin on a cache line: 64 bytes of scales cover so many MXFP4 elements.
constexpr std::size_t kElementGrain = 2048;
constexpr std::size_t kFillGrain = std::size_t{1} << 16;  // words

// Every byte or half-word is (random & mask) | fixed, so that all of them are valid.
struct RandomBytes {
  std::uint64_t mask = ~std::uint64_t{0};
  std::uint64_t fixed = 0;
};

struct FormatBits {
  std::size_t value_bits = 0;
  std::size_t group = 0;  // elements per scale byte; 0: no scales
  RandomBytes values = {};
  RandomBytes scales = {};
  float global_scale = 1;
};

FormatBits format_bits(WeightFormat format) {
  switch (format) {
    case WeightFormat::kBf16:  // either sign, 2^-11 to 2^-7
      return {.value_bits = 16, .values = {0x81FF81FF81FF81FF, 0x3A003A003A003A00}};
    case WeightFormat::kMxfp4:  // scales 2^-15 to 2^-8
      return {.value_bits = 4, .group = 32, .scales = {0x0707070707070707, 0x7070707070707070}};
    case WeightFormat::kNvfp4:  // scales 2^-10 to 2^-8
      return {.value_bits = 4,
              .group = 16,
              .scales = {0x0F0F0F0F0F0F0F0F, 0x3030303030303030},
              .global_scale = 0x1p-9f};
    default:
      fail(ErrorCode::kInternal, "no random weights are made in {}", weight_format_name(format));
  }
}

void fill(std::span<std::byte> memory, const RandomBytes& kind, std::uint64_t key, ThreadPool& pool) {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  pool.parallel_for(memory.size() / kWord, kFillGrain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::uint64_t word = (synth::random_bits(key, i) & kind.mask) | kind.fixed;
      std::memcpy(memory.data() + i * kWord, &word, kWord);
    }
  });
}

}  // namespace

WeightRing::WeightRing(WeightFormat format, std::uint64_t bytes) : format_(format) {
  const FormatBits bits = format_bits(format);
  ThreadPool pool(0);
  const std::size_t grain_bytes =
      kElementGrain * bits.value_bits / 8 + (bits.group > 0 ? kElementGrain / bits.group : 0);
  elements_ = std::max<std::size_t>(1, bytes / grain_bytes) * kElementGrain;
  const std::size_t value_bytes = elements_ * bits.value_bits / 8;
  const std::size_t scale_bytes = bits.group > 0 ? elements_ / bits.group : 0;
  memory_ = {arena_.allocate(value_bytes + scale_bytes), value_bytes + scale_bytes};
  fill(memory_.first(value_bytes), bits.values, synth::stream_key(1, "values"), pool);
  fill(memory_.subspan(value_bytes), bits.scales, synth::stream_key(1, "scales"), pool);
  if (scale_bytes > 0) scales_ = memory_.data() + value_bytes;
}

Matrix WeightRing::take(std::size_t rows, std::size_t columns) {
  const std::size_t taken = (rows * columns + kElementGrain - 1) / kElementGrain * kElementGrain;
  const FormatBits bits = format_bits(format_);
  Matrix matrix{.format = format_, .rows = rows, .columns = columns, .global_scale = bits.global_scale};
  if (taken > elements_) {
    fail(ErrorCode::kUsage, "a matrix of {} x {} {} takes {} bytes and there are {}; give more --memory",
         rows, columns, weight_format_name(format_), matrix_bytes(matrix), memory_.size());
  }
  if (next_ + taken > elements_) next_ = 0;
  matrix.values = memory_.data() + next_ * bits.value_bits / 8;
  if (scales_ != nullptr) matrix.scales = scales_ + next_ / bits.group;
  next_ += taken;
  return matrix;
}

std::vector<Matrix> WeightRing::take_all(std::size_t rows, std::size_t columns) {
  next_ = 0;
  std::vector<Matrix> matrices = {take(rows, columns)};
  const std::size_t count = elements_ / next_;
  while (matrices.size() < count) matrices.push_back(take(rows, columns));
  return matrices;
}

Tensor random_rows(std::size_t rows, std::size_t width, std::uint64_t seed) {
  Tensor tensor(rows, width);
  const std::uint64_t key = synth::stream_key(seed, "activations");
  std::uint64_t counter = 0;
  for (float& value : tensor.values())
    value = round_to_bf16(static_cast<float>(synth::normal(key, counter++)));
  return tensor;
}

}  // namespace perigee
