// A model of any size, K3's above all, in little memory: every matrix is a view into a ring of random
// weights (weight_ring.h), so the forward pass does all its work and says nothing. Its sizes are a config's,
// its trunk is BF16 and its experts are 4-bit, as in the release.
#pragma once

#include <time.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "bench/weight_ring.h"
#include "checkpoint/config.h"
#include "model/forward.h"
#include "model/state.h"
#include "model/weights.h"

namespace perigee {

// The model that has only the first `layers` of these layers.
K3Config first_layers(K3Config config, std::size_t layers);

// Hands out the next part of the ring for every expert that is asked for, so that none is in a cache, and
// counts the time that passes between the asking and the giving back.
class RingExperts : public ExpertSource {
 public:
  RingExperts(const K3Config& config, WeightRing& ring, clockid_t clock)
      : config_(config), ring_(ring), clock_(clock) {}
  std::unique_ptr<ExpertLease> acquire(std::uint64_t layer, std::span<const std::uint32_t> experts) override;

  double lease_seconds() const { return lease_seconds_; }
  std::uint64_t given() const { return given_; }  // experts

 private:
  class Lease;
  const K3Config& config_;
  WeightRing& ring_;
  clockid_t clock_;
  double lease_seconds_ = 0;
  std::uint64_t given_ = 0;
};

struct RandomModelOptions {
  std::uint64_t memory_bytes = 0;
  WeightFormat experts = WeightFormat::kMxfp4;
  clockid_t clock = CLOCK_MONOTONIC;  // of the experts' time
};

class RandomModel {
 public:
  // kUsage if a matrix does not fit the memory.
  RandomModel(const K3Config& config, const RandomModelOptions& options);
  RandomModel(const RandomModel&) = delete;
  RandomModel& operator=(const RandomModel&) = delete;

  const K3Config& config() const { return config_; }
  const TextWeights& text() const { return text_; }
  RingExperts& experts() { return experts_; }
  WeightRing& trunk() { return trunk_; }
  WeightRing& expert_ring() { return expert_ring_; }
  Model model(const Ops& ops) { return Model(config_, text_, experts_, ops); }

  std::uint64_t expert_bytes() const;  // of one routed expert

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
  const WeightFormat expert_format_;
  WeightRing trunk_;
  WeightRing expert_ring_;
  RingExperts experts_;
  std::deque<std::vector<float>> vectors_;
  TextWeights text_;
};

}  // namespace perigee
