#include <vector>

#include "experts/expert_source.h"

namespace perigee {
namespace {

class MemoryLease : public ExpertLease {
 public:
  MemoryLease(const MemoryExperts& source, std::uint64_t layer, std::span<const std::uint32_t> experts)
      : source_(source), layer_(layer), experts_(experts.begin(), experts.end()) {}

  std::optional<Arrived> next() override {
    if (next_ == experts_.size()) return std::nullopt;
    const std::size_t index = next_++;
    return Arrived{index, source_.get(layer_, experts_[index])};
  }

 private:
  const MemoryExperts& source_;
  std::uint64_t layer_;
  std::vector<std::uint32_t> experts_;
  std::size_t next_ = 0;
};

}  // namespace

std::unique_ptr<ExpertLease> MemoryExperts::acquire(std::uint64_t layer,
                                                    std::span<const std::uint32_t> experts) {
  return std::make_unique<MemoryLease>(*this, layer, experts);
}

}  // namespace perigee
