#include "experts/cache_policy.h"

#include <set>

#include "base/error.h"
#include "experts/popular_policy.h"

namespace perigee {
namespace {

class LruPolicy : public CachePolicy {
 public:
  explicit LruPolicy(const CacheShape& shape)
      : experts_(shape.experts), used_(shape.layers * shape.experts, 0) {}

  void visit(std::uint32_t layer, std::span<const std::uint32_t> experts) override {
    for (const std::uint32_t expert : experts) {
      if (order_.erase({used_at({layer, expert}), {layer, expert}}) > 0) insert({layer, expert});
    }
  }
  void inserted(ExpertKey key) override { insert(key); }
  void removed(ExpertKey key) override { order_.erase({used_at(key), key}); }
  std::optional<ExpertKey> victim(const MayLeave& may_leave) override {
    for (const auto& [used, key] : order_) {
      if (may_leave(key)) return key;
    }
    return std::nullopt;
  }

 private:
  std::uint64_t& used_at(ExpertKey key) { return used_[key.layer * experts_ + key.expert]; }
  void insert(ExpertKey key) {
    order_.erase({used_at(key), key});
    used_at(key) = ++clock_;
    order_.insert({clock_, key});
  }

  std::uint64_t experts_;
  std::uint64_t clock_ = 0;
  std::vector<std::uint64_t> used_;
  std::set<std::pair<std::uint64_t, ExpertKey>> order_;
};

// An expert is stale once its layer has been passed in this token: its next use is at least the rest of the
// round away. Those ahead leave last, the farthest first.
class LeastStalePolicy : public CachePolicy {
 public:
  explicit LeastStalePolicy(const CacheShape& shape) : present_(shape.layers) {}

  void visit(std::uint32_t layer, std::span<const std::uint32_t>) override { current_ = layer; }
  void inserted(ExpertKey key) override { present_[key.layer].insert(key.expert); }
  void removed(ExpertKey key) override { present_[key.layer].erase(key.expert); }
  std::optional<ExpertKey> victim(const MayLeave& may_leave) override {
    for (std::uint32_t layer = 0; layer <= current_; ++layer) {
      if (const auto key = first_of(layer, may_leave)) return key;
    }
    for (auto layer = static_cast<std::uint32_t>(present_.size()); layer-- > current_ + 1;) {
      if (const auto key = first_of(layer, may_leave)) return key;
    }
    return std::nullopt;
  }

 private:
  std::optional<ExpertKey> first_of(std::uint32_t layer, const MayLeave& may_leave) const {
    for (const std::uint32_t expert : present_[layer]) {
      if (may_leave({layer, expert})) return ExpertKey{layer, expert};
    }
    return std::nullopt;
  }

  std::vector<std::set<std::uint32_t>> present_;
  std::uint32_t current_ = 0;
};

}  // namespace

const char* cache_policy_name(CachePolicyKind kind) {
  switch (kind) {
    case CachePolicyKind::kPopular:
      return "popular";
    case CachePolicyKind::kLeastStale:
      return "least-stale";
    case CachePolicyKind::kLru:
      return "lru";
  }
  fail(ErrorCode::kInternal, "no such cache policy");
}

std::unique_ptr<CachePolicy> make_cache_policy(CachePolicyKind kind, const CacheShape& shape,
                                               const ExpertUsage& usage, double pinned_share) {
  if (!usage.rates.empty() && (usage.layers != shape.layers || usage.experts != shape.experts ||
                               usage.rates.size() != shape.layers * shape.experts)) {
    fail(ErrorCode::kMismatch, "the usage is of {} layers with {} experts, and the model has {} with {}",
         usage.layers, usage.experts, shape.layers, shape.experts);
  }
  switch (kind) {
    case CachePolicyKind::kPopular:
      return std::make_unique<PopularPolicy>(shape, usage, pinned_share);
    case CachePolicyKind::kLeastStale:
      return std::make_unique<LeastStalePolicy>(shape);
    case CachePolicyKind::kLru:
      return std::make_unique<LruPolicy>(shape);
  }
  fail(ErrorCode::kInternal, "no such cache policy");
}

}  // namespace perigee
