// Which expert gives its place in memory to another. The interface is small enough that recorded routing can
// be replayed through it offline, beside the best that anybody could have done (experts/replay.h).
// Deliberately knows no memory and no files, and is not thread-safe: its owner has a lock.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace perigee {

struct ExpertKey {
  std::uint32_t layer = 0;
  std::uint32_t expert = 0;
  auto operator<=>(const ExpertKey&) const = default;
};

// Uses per step of every expert [layers, experts], from 0 to 1, old steps counting less and less; what is
// kept across runs (experts/usage_file.h).
struct ExpertUsage {
  std::uint64_t layers = 0;
  std::uint64_t experts = 0;
  std::vector<float> rates;
};

class CachePolicy {
 public:
  using MayLeave = std::function<bool(ExpertKey)>;

  virtual ~CachePolicy() = default;
  // A step needs these experts of a layer, ascending; told before they are looked for.
  virtual void visit(std::uint32_t layer, std::span<const std::uint32_t> experts) = 0;
  virtual void inserted(ExpertKey key) = 0;
  virtual void removed(ExpertKey key) = 0;
  // The present expert whose place is worth least among those that may leave; nullopt if none may.
  virtual std::optional<ExpertKey> victim(const MayLeave& may_leave) = 0;
  // Whether the expert belongs to the popular set that stays.
  virtual bool is_pinned(ExpertKey) const { return false; }
  // The popular set, most used first: worth reading before anybody asks.
  virtual std::vector<ExpertKey> pinned() const { return {}; }
  // Empty if the policy counts nothing.
  virtual ExpertUsage usage() const { return {}; }
};

enum class CachePolicyKind {
  kPopular,     // a pinned popular set, the rest by the time until the next use that is to be expected
  kLeastStale,  // layers already passed in this token first, the oldest pass first
  kLru,         // plain least recently used, to compare with
};
const char* cache_policy_name(CachePolicyKind kind);  // "popular", "least-stale", "lru"

struct CacheShape {
  std::uint64_t layers = 0;
  std::uint64_t experts = 0;  // of a layer
  std::size_t slots = 0;
};

// `usage` may be empty (no rates), else of the same layers and experts. `pinned_share` of the slots, half of
// them at most, belong to the popular set as soon as there is usage to choose it by; kPopular only.
std::unique_ptr<CachePolicy> make_cache_policy(CachePolicyKind kind, const CacheShape& shape,
                                               const ExpertUsage& usage = {}, double pinned_share = 0.5);

}  // namespace perigee
