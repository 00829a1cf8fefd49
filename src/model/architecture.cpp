#include "model/architecture.h"

#include "base/error.h"
#include "checkpoint/json_document.h"

namespace perigee {
namespace {

// What the forward pass is written for (docs/model.md). Another value means another network, whatever its
// tensors are called.
struct Choice {
  const char* pointer;  // JSON pointer into config.json
  nlohmann::json value;
};

std::vector<Choice> choices_of_k3() {
  return {{"/text_config/hidden_act", "situ"},
          {"/text_config/latent_moe_use_norm", true},
          {"/text_config/linear_attn_config/use_full_rank_gate", true},
          {"/text_config/mla_use_nope", true},
          {"/text_config/mla_use_output_gate", true},
          {"/text_config/moe_router_activation_func", "sigmoid"},
          {"/text_config/num_expert_group", 1},
          {"/text_config/num_nextn_predict_layers", 0},
          {"/text_config/tie_word_embeddings", false},
          {"/text_config/topk_group", 1}};
}

}  // namespace

void check_architecture(const std::filesystem::path& config_json) {
  const nlohmann::json config = load_json_document(config_json);
  for (const auto& [pointer, value] : choices_of_k3()) {
    const nlohmann::json::json_pointer place(pointer);
    if (!config.contains(place))
      fail(ErrorCode::kCorrupt, "{}: {} is missing", config_json.string(), pointer);
    if (config.at(place) != value) {
      fail(ErrorCode::kUnsupported, "{}: {} is {}, but this program runs K3, where it is {}",
           config_json.string(), pointer, config.at(place).dump(), value.dump());
    }
  }
}

}  // namespace perigee
