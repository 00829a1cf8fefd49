#include "model/state.h"

#include <cstring>

#include "base/error.h"
#include "numerics/bf16.h"

namespace perigee {

std::size_t cache_value_bytes(Precision precision) {
  return precision == Precision::kBf16 ? sizeof(std::uint16_t) : sizeof(float);
}

std::size_t MlaCache::row_bytes() const {
  return precision_ ? width_ * cache_value_bytes(*precision_) : 0;
}

std::span<std::byte> MlaCache::rows(std::size_t position, std::size_t count, Precision precision) {
  if (!precision_) precision_ = precision;
  if (*precision_ != precision) {
    fail(ErrorCode::kInternal,
         "a state whose latents are kept in {} was given some in the other precision; begin a new sequence",
         *precision_ == Precision::kBf16 ? "bf16" : "float32");
  }
  while (position >= pieces_.size() * kMlaPiece) {
    pieces_.push_back(std::make_unique<std::byte[]>(kMlaPiece * row_bytes()));
    views_.push_back(pieces_.back().get());
  }
  return {pieces_[position / kMlaPiece].get() + position % kMlaPiece * row_bytes(), count * row_bytes()};
}

std::span<const std::byte> MlaCache::rows(std::size_t position, std::size_t count) const {
  return {views_[position / kMlaPiece] + position % kMlaPiece * row_bytes(), count * row_bytes()};
}

void MlaCache::write(std::size_t position, std::span<const float> values, Precision precision) {
  std::byte* to = rows(position, 1, precision).data();
  if (precision == Precision::kF32) {
    std::memcpy(to, values.data(), values.size_bytes());
    return;
  }
  for (const float value : values) {
    const std::uint16_t bits = bf16_round(value);
    std::memcpy(to, &bits, sizeof bits);
    to += sizeof bits;
  }
}

MlaCacheView MlaCache::view(std::size_t positions) const {
  return {views_, positions, precision_ == Precision::kBf16 ? WeightFormat::kBf16 : WeightFormat::kF32};
}

SequenceState::SequenceState(const K3Config& config) {
  const std::size_t kda_width = config.kda_num_heads * config.kda_head_dim;
  const std::size_t past = config.short_conv_kernel_size - 1;
  for (std::size_t i = 0; i < config.num_hidden_layers; ++i) {
    if (config.is_mla[i]) {
      layers.emplace_back(MlaCache(config.kv_lora_rank + config.qk_rope_head_dim));
    } else {
      layers.emplace_back(KdaState{Tensor(past, kda_width), Tensor(past, kda_width), Tensor(past, kda_width),
                                   Tensor(kda_width, config.kda_head_dim)});
    }
  }
}

}  // namespace perigee
