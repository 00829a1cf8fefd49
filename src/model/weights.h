// The weights of a K3 checkpoint as the forward pass uses them: views by role, named as in docs/model.md.
// Sizes come from config.json and every tensor is checked against them when it is loaded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "checkpoint/config.h"
#include "compute/matrix.h"
#include "compute/ops.h"
#include "experts/expert_source.h"
#include "experts/memory_plan.h"
#include "experts/streamed_options.h"

namespace perigee {

class StreamedExperts;

using Vector = std::span<const float>;

struct KdaWeights {
  Matrix q_proj, k_proj, v_proj, g_proj, f_a_proj, f_b_proj, b_proj, o_proj;
  Vector q_conv1d, k_conv1d, v_conv1d;  // [heads * head_dim, taps]
  Vector dt_bias;                       // [heads * head_dim]
  Vector a_log;                         // [heads]: per head; the padding of the release is cut off
  Vector o_norm;                        // [head_dim]
};

struct MlaWeights {
  Matrix q_a_proj, q_b_proj, kv_a_proj_with_mqa, kv_b_proj, g_proj, o_proj;
  Vector q_a_layernorm, kv_a_layernorm;
};

struct MlpWeights {  // the dense layers and the shared experts
  Matrix gate_proj, up_proj, down_proj;
};

struct MoeWeights {
  Matrix gate;                     // router
  Vector e_score_correction_bias;  // [experts]
  Matrix routed_expert_down_proj, routed_expert_up_proj;
  Vector routed_expert_norm;
  MlpWeights shared_experts;
};

struct LayerWeights {
  Vector input_layernorm, post_attention_layernorm;
  Vector self_attention_res_norm, self_attention_res_proj;
  Vector mlp_res_norm, mlp_res_proj;
  std::variant<KdaWeights, MlaWeights> attention;
  std::variant<MlpWeights, MoeWeights> ffn;
};

struct TextWeights {
  Matrix embed_tokens, lm_head;
  Vector norm, output_attn_res_norm, output_attn_res_proj;
  std::vector<LayerWeights> layers;
};

// A checkpoint or a store, ready to run: the trunk in memory, the routed experts there too or streamed from
// their files. Accepts the released form (MXFP4 experts), NVFP4 of either layout and NVIDIA's mixed FP8, as
// `perigee convert` and ModelOpt write them.
class LoadedModel {
 public:
  struct Options {
    std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)> progress;
    std::uint64_t memory_limit_bytes = 0;  // 0: what the machine has available
    ExpertHome experts = ExpertHome::kAuto;
    StreamedOptions streaming = {};  // if they are streamed; the slots are planned here
    // What is kept free for sequences: how many at a time, and the tokens of each.
    std::uint64_t sequences = 1;
    std::uint64_t sequence_tokens = 8192;
    Precision precision = Precision::kBf16;  // of the activations, which decides what a latent takes
  };

  // Refuses by name what it does not understand: an unknown tensor, a wrong shape or type, an A_log whose
  // padding is not zero, a missing shard; kNoSpace with the bytes that would be needed before anything is
  // read.
  static LoadedModel load(const std::filesystem::path& checkpoint, const Options& options);
  ~LoadedModel();
  LoadedModel(LoadedModel&&) noexcept;
  LoadedModel& operator=(LoadedModel&&) noexcept;

  const K3Config& config() const;
  const TextWeights& text() const;
  ExpertSource& experts() const;
  std::uint64_t bytes() const;  // memory that the weights occupy, slots included
  const MemoryPlan& memory_plan() const;
  const StreamedExperts* streamed() const;  // nullptr: all experts are in memory

 private:
  struct Storage;
  explicit LoadedModel(std::unique_ptr<Storage> storage);
  std::unique_ptr<Storage> storage_;
};

}  // namespace perigee
