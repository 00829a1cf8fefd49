// The backends of the CPU: ReferenceOps' bits, by vector instructions and several threads. Who computes what
// is decided here by shapes and the number of threads alone, and never shows in a result; how it is computed
// stands in the kernels.
#pragma once

#include "base/thread_pool.h"
#include "compute/cpu/cpu_kernels.h"
#include "compute/reference/reference_ops.h"

namespace perigee {

class CpuOps : public ReferenceOps {
 public:
  CpuOps(const CpuKernels& kernels, Precision precision, unsigned threads)
      : ReferenceOps(precision), kernels_(kernels), pool_(threads) {}

  std::string name() const override { return kernels_.name; }

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

 private:
  bool rounds() const { return precision() == Precision::kBf16; }
  void fast_linear(const Matrix& w, ConstRows x, Rows y, bool round) const;

  const CpuKernels& kernels_;
  mutable ThreadPool pool_;
};

}  // namespace perigee
