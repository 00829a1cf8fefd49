// The policy that streaming uses. Decoding visits the layers in a circle, so what was used last is what is
// needed last, and "least recently used" keeps nothing. This one estimates for every expert how likely its
// layer's next visit needs it, from two things that routers repeat: how often it is used at all, and how long
// ago it was. The estimate is not a formula but a table of what came true so far, for every pair of the two.
#pragma once

#include <array>

#include "experts/cache_policy.h"

namespace perigee {

class PopularPolicy : public CachePolicy {
 public:
  PopularPolicy(const CacheShape& shape, const ExpertUsage& usage, double pinned_share);

  void visit(std::uint32_t layer, std::span<const std::uint32_t> experts) override;
  void inserted(ExpertKey key) override;
  void removed(ExpertKey key) override;
  std::optional<ExpertKey> victim(const MayLeave& may_leave) override;
  bool is_pinned(ExpertKey key) const override { return history(key).pinned; }
  std::vector<ExpertKey> pinned() const override { return popular_; }
  ExpertUsage usage() const override;

 private:
  static constexpr std::size_t kAges = 16;   // visits since the last use; the last one: more
  static constexpr std::size_t kRates = 24;  // half octaves of the rate of use

  struct History {
    float rate = 0;    // uses per visit, decayed
    float chance = 0;  // of a use at the next visit
    std::uint8_t age = kAges - 1;
    bool present = false;
    bool pinned = false;
  };
  struct Layer {
    std::vector<History> experts;
    std::vector<std::uint32_t> present;  // the least likely last
    std::uint64_t visits = 0;
  };
  struct Outcome {
    float seen = 0, used = 0;
  };

  const History& history(ExpertKey key) const { return layers_[key.layer].experts[key.expert]; }
  History& history(ExpertKey key) { return layers_[key.layer].experts[key.expert]; }
  static std::size_t rate_bin(float rate);
  float chance_of(const History& expert) const;
  void learn(Layer& layer, std::span<const std::uint32_t> experts);
  double tokens_until_use(std::size_t layer, std::uint32_t expert) const;
  float chance_of_reuse() const;
  void choose_popular();

  std::vector<Layer> layers_;
  std::array<std::array<Outcome, kRates>, kAges> outcomes_{};
  std::size_t current_ = 0;  // the layer visited last
  std::uint64_t visits_ = 0;
  std::size_t most_popular_;
  std::vector<ExpertKey> popular_;
};

}  // namespace perigee
