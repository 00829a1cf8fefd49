// MXFP4 experts handed out as the NVFP4 that `perigee convert` would write of them: the same decisions and
// the same arithmetic, in memory, one expert at a time. Nibbles stay where they are; only scales are made.
#pragma once

#include "convert/target_layout.h"
#include "experts/expert_source.h"

namespace perigee {

class CastExperts : public ExpertSource {
 public:
  // Keeps a reference. kModelOpt and kCompressedTensors differ in how they write the tensor scale.
  CastExperts(ExpertSource& mxfp4, Layout layout) : mxfp4_(mxfp4), layout_(layout) {}

  // The lease throws kLossy or kUnsupported, naming module, row and group, for an expert that has no lossless
  // cast.
  std::unique_ptr<ExpertLease> acquire(std::uint64_t layer, std::span<const std::uint32_t> experts) override;

 private:
  ExpertSource& mxfp4_;
  Layout layout_;
};

}  // namespace perigee
