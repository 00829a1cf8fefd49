#include "proof/cast_experts.h"

#include <vector>

#include "checkpoint/tensor_name.h"
#include "convert/scale_policy.h"
#include "numerics/lossless_cast.h"

namespace perigee {
namespace {

constexpr std::size_t kMxfp4Group = 32;

ScannedModule scanned(const Matrix& matrix, std::uint64_t layer, std::uint32_t expert,
                      Projection projection) {
  const std::size_t elements = matrix.rows * matrix.columns;
  ScannedModule module{expert_module_name(layer, expert, projection),
                       matrix.columns / kMxfp4Group,
                       {matrix.values, elements / 2},
                       {matrix.scales, elements / kMxfp4Group},
                       {}};
  scan_mxfp4(module.nibbles, module.scales, module.scan);
  return module;
}

// As it comes back from a file of this layout.
float tensor_scale(Layout layout, int max_exponent) {
  if (layout == Layout::kCompressedTensors) return 1.0F / cast_global_scale(max_exponent);
  return cast_scale_2(max_exponent);
}

class CastLease : public ExpertLease {
 public:
  CastLease(std::unique_ptr<ExpertLease> mxfp4, Layout layout, std::uint64_t layer,
            std::span<const std::uint32_t> experts)
      : mxfp4_(std::move(mxfp4)), layout_(layout), layer_(layer), experts_(experts.begin(), experts.end()) {}

  std::optional<Arrived> next() override {
    std::optional<Arrived> arrived = mxfp4_->next();
    if (!arrived) return arrived;
    const std::uint32_t expert = experts_[arrived->index];
    ExpertWeights& w = arrived->weights;
    const ScannedModule pair[] = {scanned(w.w1, layer_, expert, Projection::kW1),
                                  scanned(w.w3, layer_, expert, Projection::kW3)};
    const ScannedModule down[] = {scanned(w.w2, layer_, expert, Projection::kW2)};
    const int pair_exponent = decide_scale(pair, {}).max_exponent;  // w1 and w3 share one
    cast(pair[0], pair_exponent, scales_[0], w.w1);
    cast(pair[1], pair_exponent, scales_[1], w.w3);
    cast(down[0], decide_scale(down, {}).max_exponent, scales_[2], w.w2);
    return arrived;
  }

 private:
  void cast(const ScannedModule& module, int max_exponent, std::vector<std::byte>& scales,
            Matrix& matrix) const {
    scales.resize(2 * module.scales.size());
    expand_scales(module.scales, make_cast_table(max_exponent), scales);
    matrix.format = WeightFormat::kNvfp4;
    matrix.scales = scales.data();
    matrix.global_scale = tensor_scale(layout_, max_exponent);
  }

  const std::unique_ptr<ExpertLease> mxfp4_;
  const Layout layout_;
  const std::uint64_t layer_;
  const std::vector<std::uint32_t> experts_;
  std::vector<std::byte> scales_[3];
};

}  // namespace

std::unique_ptr<ExpertLease> CastExperts::acquire(std::uint64_t layer,
                                                  std::span<const std::uint32_t> experts) {
  return std::make_unique<CastLease>(mxfp4_.acquire(layer, experts), layout_, layer, experts);
}

}  // namespace perigee
