// Ops that hand every call on to a backend: the seam at which tests make one mistake and leave the rest
// right. For tests only.
#pragma once

#include "compute/ops.h"

namespace perigee::test {

class ForwardingOps : public Ops {
 public:
  explicit ForwardingOps(const Ops& inner) : inner_(inner) {}
  std::string name() const override { return inner_.name(); }
  Precision precision() const override { return inner_.precision(); }
  void linear(const Matrix& w, ConstRows x, Rows y) const override { inner_.linear(w, x, y); }
  void linear_f32(const Matrix& w, ConstRows x, Rows y) const override { inner_.linear_f32(w, x, y); }
  void embed(const Matrix& table, std::span<const std::uint32_t> ids, Rows y) const override {
    inner_.embed(table, ids, y);
  }
  void rms_norm(ConstRows x, std::span<const float> weight, float eps, Rows y) const override {
    inner_.rms_norm(x, weight, eps, y);
  }
  void add(ConstRows x, Rows y) const override { inner_.add(x, y); }
  void attention_residual(std::span<const ConstRows> sources, std::span<const float> norm,
                          std::span<const float> proj, float eps, Rows y) const override {
    inner_.attention_residual(sources, norm, proj, eps, y);
  }
  void situ(ConstRows gate, ConstRows up, const SituParameters& parameters, Rows y) const override {
    inner_.situ(gate, up, parameters, y);
  }
  void short_convolution(ConstRows x, std::span<const float> weight, std::size_t taps, Rows state,
                         Rows y) const override {
    inner_.short_convolution(x, weight, taps, state, y);
  }
  void kda(ConstRows q, ConstRows k, ConstRows v, ConstRows g, ConstRows b, const KdaParameters& parameters,
           Rows state, Rows y) const override {
    inner_.kda(q, k, v, g, b, parameters, state, y);
  }
  void gated_head_norm(ConstRows x, ConstRows gate, std::span<const float> weight, float eps,
                       Rows y) const override {
    inner_.gated_head_norm(x, gate, weight, eps, y);
  }
  void sigmoid_gate(ConstRows x, ConstRows gate, Rows y) const override { inner_.sigmoid_gate(x, gate, y); }
  void mla(ConstRows q, const Matrix& kv_b, const MlaCacheView& cache, std::size_t first_position,
           const MlaParameters& parameters, Rows y) const override {
    inner_.mla(q, kv_b, cache, first_position, parameters, y);
  }
  void route(ConstRows logits, const RouterParameters& parameters,
             std::span<RoutedToken> routed) const override {
    inner_.route(logits, parameters, routed);
  }
  void add_weighted(ConstRows x, std::span<const float> weights, std::span<const std::uint32_t> tokens,
                    Rows y) const override {
    inner_.add_weighted(x, weights, tokens, y);
  }
  void round(Rows x) const override { inner_.round(x); }

 protected:
  const Ops& inner_;
};

}  // namespace perigee::test
