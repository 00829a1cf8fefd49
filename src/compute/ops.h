// What K3's forward pass is made of, as one interface with a backend per instruction set. `reference_ops` is
// the definition: scalar, obvious. Every other backend gives its bits (docs/numerics.md). An op's output is
// an activation and is rounded to bf16 in bf16 mode, except where "float32" is said. Widths are checked by
// the caller once, when a model is loaded; ops trust them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compute/matrix.h"
#include "compute/tensor.h"

namespace perigee {

enum class Precision {
  kBf16,  // activations are rounded where the released code rounds them
  kF32,   // nothing is rounded
};

struct SituParameters {
  float beta = 0;         // activation_situ_beta
  float linear_beta = 0;  // activation_situ_linear_beta
};

// One KDA layer's constants. docs/model.md, "KDA".
struct KdaParameters {
  std::size_t heads = 0;
  std::size_t head_dim = 0;
  float gate_lower_bound = 0;
  const float* a_log = nullptr;    // [heads]
  const float* dt_bias = nullptr;  // [heads * head_dim]
};

struct MlaParameters {
  std::size_t heads = 0;
  std::size_t nope_dim = 0;    // qk_nope_head_dim
  std::size_t rope_dim = 0;    // qk_rope_head_dim: plain key dimensions, K3 has no rotary embedding
  std::size_t value_dim = 0;   // v_head_dim
  std::size_t latent_dim = 0;  // kv_lora_rank
};

// The latent cache of one sequence and layer: rows of latent_dim + rope_dim values, in pieces of kMlaPiece
// positions.
inline constexpr std::size_t kMlaPiece = 256;
struct MlaCacheView {
  std::span<const std::byte* const> pieces;  // each [kMlaPiece, latent_dim + rope_dim]
  std::size_t positions = 0;                 // valid ones
  WeightFormat format = WeightFormat::kF32;  // of the values: kF32 or kBf16
};

struct RoutedToken {
  std::vector<std::uint32_t> experts;  // ascending
  std::vector<float> weights;          // float32, in the order of `experts`
};

struct RouterParameters {
  std::size_t top_k = 0;
  bool renormalise = true;
  float scaling_factor = 1;
  const float* selection_bias = nullptr;  // [experts]; selects only, weights come from the raw scores
};

class Ops {
 public:
  virtual ~Ops() = default;
  virtual std::string name() const = 0;  // "reference", "avx2", "avx512", "avx512-bf16"
  virtual Precision precision() const = 0;

  // y[t] = W x[t]: one canonical dot per row and token. linear rounds, linear_f32 does not (router, head).
  virtual void linear(const Matrix& w, ConstRows x, Rows y) const = 0;
  virtual void linear_f32(const Matrix& w, ConstRows x, Rows y) const = 0;

  // y[t] = row ids[t] of the table.
  virtual void embed(const Matrix& table, std::span<const std::uint32_t> ids, Rows y) const = 0;

  // x * rsqrt(mean(x^2) + eps), rounded, then * weight, rounded. The mean is the canonical dot of x with
  // itself / width.
  virtual void rms_norm(ConstRows x, std::span<const float> weight, float eps, Rows y) const = 0;

  // y += x
  virtual void add(ConstRows x, Rows y) const = 0;

  // Attention residual: softmax over the sources of the score of each, mix of the sources themselves, all in
  // float32; y may not overlap a source. score = sum of (v * rsqrt(mean(v^2) + eps)) * norm * proj.
  virtual void attention_residual(std::span<const ConstRows> sources, std::span<const float> norm,
                                  std::span<const float> proj, float eps, Rows y) const = 0;

  // SiTU-GLU: beta tanh(g / beta) sigmoid(g) * linear_beta tanh(u / linear_beta)
  virtual void situ(ConstRows gate, ConstRows up, const SituParameters& parameters, Rows y) const = 0;

  // Causal depthwise convolution along the rows of x, then SiLU. weight [width, taps], tap taps-1 meets the
  // present row. state [taps-1, width] holds the rows before x, oldest first, and is moved on.
  virtual void short_convolution(ConstRows x, std::span<const float> weight, std::size_t taps, Rows state,
                                 Rows y) const = 0;

  // The delta rule, token by token, float32. q, k, v after their convolutions, g the raw decay input, all
  // [tokens, heads * head_dim]; b [tokens, heads]. state [heads * head_dim, head_dim] is S per head, [key,
  // value].
  virtual void kda(ConstRows q, ConstRows k, ConstRows v, ConstRows g, ConstRows b,
                   const KdaParameters& parameters, Rows state, Rows y) const = 0;

  // RMS norm over each head (one weight [head_dim] for all), times sigmoid(gate).
  virtual void gated_head_norm(ConstRows x, ConstRows gate, std::span<const float> weight, float eps,
                               Rows y) const = 0;

  // y = x * sigmoid(gate)
  virtual void sigmoid_gate(ConstRows x, ConstRows gate, Rows y) const = 0;

  // Absorbed MLA of one sequence: q [tokens, heads * (nope + rope)], token t sees positions < first_position
  // + t + 1 of the cache. kv_b [heads * (nope + value), latent] (its key half is applied to q, its value half
  // after the softmax). Pieces of kMlaPiece absolute positions are combined in order.
  virtual void mla(ConstRows q, const Matrix& kv_b, const MlaCacheView& cache, std::size_t first_position,
                   const MlaParameters& parameters, Rows y) const = 0;

  // scores = router logits, float32. Ties go to the lower expert.
  virtual void route(ConstRows logits, const RouterParameters& parameters,
                     std::span<RoutedToken> routed) const = 0;

  // y += weight * x, float32, for the tokens listed: one expert's share, added in the order of the calls.
  virtual void add_weighted(ConstRows x, std::span<const float> weights,
                            std::span<const std::uint32_t> tokens, Rows y) const = 0;

  // Rounds to the activation type; nothing in f32 mode.
  virtual void round(Rows x) const = 0;
};

struct OpsOptions {
  Precision precision = Precision::kBf16;
  unsigned threads = 0;  // 0: all cores
  std::string backend;   // a name of available_backends(); empty: the fastest
};

// Backends that this machine can run, slowest ("reference") first.
std::vector<std::string> available_backends();

// kUnsupported naming the backends there are.
std::unique_ptr<Ops> make_ops(const OpsOptions& options);

}  // namespace perigee
