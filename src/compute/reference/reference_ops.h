// The ops as their definition says, one scalar operation after the other: what every other backend must equal
// bit by bit, and what it falls back to for ops whose speed does not matter. Nothing here is fast or
// threaded.
#pragma once

#include "compute/ops.h"
#include "numerics/bf16.h"

namespace perigee {

class ReferenceOps : public Ops {
 public:
  explicit ReferenceOps(Precision precision) : precision_(precision) {}

  std::string name() const override { return "reference"; }
  Precision precision() const override { return precision_; }

  void linear(const Matrix& w, ConstRows x, Rows y) const override;
  void linear_f32(const Matrix& w, ConstRows x, Rows y) const override;
  void embed(const Matrix& table, std::span<const std::uint32_t> ids, Rows y) const override;
  void rms_norm(ConstRows x, std::span<const float> weight, float eps, Rows y) const override;
  void add(ConstRows x, Rows y) const override;
  void attention_residual(std::span<const ConstRows> sources, std::span<const float> norm,
                          std::span<const float> proj, float eps, Rows y) const override;
  void situ(ConstRows gate, ConstRows up, const SituParameters& parameters, Rows y) const override;
  void short_convolution(ConstRows x, std::span<const float> weight, std::size_t taps, Rows state,
                         Rows y) const override;
  void kda(ConstRows q, ConstRows k, ConstRows v, ConstRows g, ConstRows b, const KdaParameters& parameters,
           Rows state, Rows y) const override;
  void gated_head_norm(ConstRows x, ConstRows gate, std::span<const float> weight, float eps,
                       Rows y) const override;
  void sigmoid_gate(ConstRows x, ConstRows gate, Rows y) const override;
  void mla(ConstRows q, const Matrix& kv_b, const MlaCacheView& cache, std::size_t first_position,
           const MlaParameters& parameters, Rows y) const override;
  void route(ConstRows logits, const RouterParameters& parameters,
             std::span<RoutedToken> routed) const override;
  void add_weighted(ConstRows x, std::span<const float> weights, std::span<const std::uint32_t> tokens,
                    Rows y) const override;
  void round(Rows x) const override;

 protected:
  // The activation that is stored for `value`.
  float stored(float value) const { return precision_ == Precision::kBf16 ? round_to_bf16(value) : value; }

 private:
  Precision precision_;
};

}  // namespace perigee
