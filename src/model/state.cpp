#include "model/state.h"

namespace perigee {

float* MlaCache::row(std::size_t position) {
  while (position >= pieces_.size() * kMlaPiece) {
    pieces_.push_back(std::make_unique<float[]>(kMlaPiece * width_));
    views_.push_back(pieces_.back().get());
  }
  return pieces_[position / kMlaPiece].get() + position % kMlaPiece * width_;
}

MlaCacheView MlaCache::view(std::size_t positions) const {
  return {views_, positions};
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
