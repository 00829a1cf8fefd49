// A model of any size, K3's above all, in little memory: every matrix is a view into a ring of random
// weights (weight_ring.h), so the forward pass does all its work and says nothing. Its sizes are a config's,
// its trunk is BF16 and its experts are 4-bit, as in the release.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "bench/weight_ring.h"
#include "checkpoint/config.h"
#include "model/forward.h"
#include "model/state.h"
#include "model/weights.h"

namespace perigee {

// K3 with so many of its first layers. `vocab` 0: K3's.
K3Config k3_layers(std::size_t layers, std::size_t vocab = 0);

// Hands out the next part of the ring for every expert that is asked for, so that none is in a cache, and
// counts the time that passes between the asking and the giving back.
class RingExperts : public ExpertSource {
 public:
  RingExperts(const K3Config& config, WeightRing& ring) : config_(config), ring_(ring) {}
  std::unique_ptr<ExpertLease> acquire(std::uint64_t layer, std::span<const std::uint32_t> experts) override;

  double lease_seconds() const { return lease_seconds_; }
  std::uint64_t given() const { return given_; }  // experts

 private:
  class Lease;
  const K3Config& config_;
  WeightRing& ring_;
  double lease_seconds_ = 0;
  std::uint64_t given_ = 0;
};

struct RandomModelOptions {
  std::uint64_t memory_bytes = 0;
  WeightFormat experts = WeightFormat::kMxfp4;
};

class RandomModel {
 public:
  // kUsage if a matrix does not fit the memory.
  RandomModel(const K3Config& config, const RandomModelOptions& options, ThreadPool& pool);
  RandomModel(const RandomModel&) = delete;
  RandomModel& operator=(const RandomModel&) = delete;

  const K3Config& config() const { return config_; }
  const TextWeights& text() const { return text_; }
  RingExperts& experts() { return experts_; }
  Model model(const Ops& ops) { return Model(config_, text_, experts_, ops); }

  // A state as after so many tokens: latent caches filled, recurrent states small and not zero.
  SequenceState state_after(std::size_t positions) const;

  // Seconds for reading the trunk's and the experts' memory once, and their bytes.
  double read_seconds(ThreadPool& pool) const;
  std::uint64_t bytes() const { return trunk_.memory().size() + expert_ring_.memory().size(); }

 private:
  Vector vector(std::size_t size, float value);
  Vector random_vector(std::size_t size, float deviation);
  KdaWeights kda();
  MlaWeights mla();
  MlpWeights mlp(std::size_t width);
  MoeWeights moe();
  LayerWeights layer(std::size_t i);

  const K3Config config_;
  WeightRing trunk_;
  WeightRing expert_ring_;
  RingExperts experts_;
  std::deque<std::vector<float>> vectors_;
  TextWeights text_;
};

}  // namespace perigee
