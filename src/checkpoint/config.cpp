// Ranges are wide enough for any relative of K3 and narrow enough that no product of sizes overflows 64 bits
// and no list made from a config grows out of bounds.
#include "checkpoint/config.h"

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/json_document.h"

namespace perigee {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxLayers = 4096;
constexpr std::uint64_t kMaxWidth = std::uint64_t{1} << 20;
constexpr std::uint64_t kMaxHeads = 4096;
constexpr std::uint64_t kMaxHeadWidth = 4096;
constexpr std::uint64_t kMaxVocabulary = std::uint64_t{1} << 24;
constexpr std::uint64_t kMaxPositions = std::uint64_t{1} << 32;
constexpr std::uint64_t kMaxExpertsPerLayer = 65536;
constexpr std::uint64_t kMaxExperts = std::uint64_t{1} << 19;  // of all layers; K3 has 82,432

// One object of the config; knows its path for error sentences.
class Section {
 public:
  Section(const std::string& origin, std::string path, const json& object)
      : origin_(origin), path_(std::move(path)), object_(object) {
    if (!object.is_object()) fail(ErrorCode::kCorrupt, "{}: {} is not an object", origin_, path_);
  }

  Section section(const char* key) const { return {origin_, path_of(key), at(key)}; }

  std::uint64_t integer(const char* key, std::uint64_t least, std::uint64_t most) const {
    return checked(at(key), path_of(key), least, most);
  }

  double real(const char* key, double least, double most) const {
    const json& value = at(key);
    if (!value.is_number()) fail(ErrorCode::kCorrupt, "{}: {} is not a number", origin_, path_of(key));
    const double number = value.get<double>();
    if (!(number >= least && number <= most)) {
      fail(ErrorCode::kCorrupt, "{}: {} is {}, which is not from {} to {}", origin_, path_of(key), number,
           least, most);
    }
    return number;
  }

  bool boolean(const char* key) const {
    const json& value = at(key);
    if (!value.is_boolean()) fail(ErrorCode::kCorrupt, "{}: {} is not true or false", origin_, path_of(key));
    return value.get<bool>();
  }

  std::vector<std::uint64_t> integers(const char* key, std::uint64_t least, std::uint64_t most) const {
    const json& value = at(key);
    if (!value.is_array()) fail(ErrorCode::kCorrupt, "{}: {} is not a list", origin_, path_of(key));
    std::vector<std::uint64_t> numbers;
    for (std::size_t i = 0; i < value.size(); ++i)
      numbers.push_back(checked(value[i], fmt::format("{}[{}]", path_of(key), i), least, most));
    return numbers;
  }

  std::string path_of(const char* key) const { return path_.empty() ? key : path_ + "." + key; }

 private:
  const json& at(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) fail(ErrorCode::kCorrupt, "{}: {} is missing", origin_, path_of(key));
    return *found;
  }

  std::uint64_t checked(const json& value, const std::string& path, std::uint64_t least,
                        std::uint64_t most) const {
    if (!value.is_number_integer()) fail(ErrorCode::kCorrupt, "{}: {} is not an integer", origin_, path);
    const bool negative = !value.is_number_unsigned();
    const auto number = negative ? 0 : value.get<std::uint64_t>();
    if (negative || number < least || number > most) {
      fail(ErrorCode::kCorrupt, "{}: {} is {}, which is not from {} to {}", origin_, path, value.dump(),
           least, most);
    }
    return number;
  }

  const std::string& origin_;
  std::string path_;
  const json& object_;
};

void read_sizes(const Section& text, K3Config& config) {
  config.hidden_size = text.integer("hidden_size", 1, kMaxWidth);
  config.num_hidden_layers = text.integer("num_hidden_layers", 1, kMaxLayers);
  config.vocab_size = text.integer("vocab_size", 1, kMaxVocabulary);
  config.intermediate_size = text.integer("intermediate_size", 1, kMaxWidth);
  config.attn_res_block_size = text.integer("attn_res_block_size", 1, kMaxLayers);
  config.num_nextn_predict_layers = text.integer("num_nextn_predict_layers", 0, kMaxLayers);
  config.max_position_embeddings = text.integer("max_position_embeddings", 1, kMaxPositions);
}

void read_attention(const Section& text, K3Config& config) {
  config.num_attention_heads = text.integer("num_attention_heads", 1, kMaxHeads);
  config.q_lora_rank = text.integer("q_lora_rank", 1, kMaxWidth);
  config.kv_lora_rank = text.integer("kv_lora_rank", 1, kMaxWidth);
  config.qk_nope_head_dim = text.integer("qk_nope_head_dim", 1, kMaxHeadWidth);
  config.qk_rope_head_dim = text.integer("qk_rope_head_dim", 1, kMaxHeadWidth);
  config.v_head_dim = text.integer("v_head_dim", 1, kMaxHeadWidth);
  config.mla_use_nope = text.boolean("mla_use_nope");
  config.mla_use_output_gate = text.boolean("mla_use_output_gate");
}

void read_experts(const Section& text, K3Config& config, const std::string& origin) {
  config.first_k_dense_replace = text.integer("first_k_dense_replace", 0, config.num_hidden_layers);
  config.moe_layer_freq = text.integer("moe_layer_freq", 1, kMaxLayers);
  config.num_experts = text.integer("num_experts", 1, kMaxExpertsPerLayer);
  config.num_experts_per_token = text.integer("num_experts_per_token", 1, config.num_experts);
  config.num_shared_experts = text.integer("num_shared_experts", 1, 64);
  config.moe_intermediate_size = text.integer("moe_intermediate_size", 1, kMaxWidth);
  config.routed_expert_hidden_size = text.integer("routed_expert_hidden_size", 1, kMaxWidth);
  config.moe_renormalize = text.boolean("moe_renormalize");
  config.routed_scaling_factor = text.real("routed_scaling_factor", 1e-6, 1e6);
  if (config.num_hidden_layers * config.num_experts > kMaxExperts) {
    fail(ErrorCode::kCorrupt, "{}: {} x {} experts are more than the {} that this program handles", origin,
         config.num_hidden_layers, config.num_experts, kMaxExperts);
  }
}

void read_scalars(const Section& text, K3Config& config) {
  config.rms_norm_eps = text.real("rms_norm_eps", 1e-20, 1);
  config.activation_situ_beta = text.real("activation_situ_beta", 1e-6, 1e6);
  config.activation_situ_linear_beta = text.real("activation_situ_linear_beta", 1e-6, 1e6);
  config.tie_word_embeddings = text.boolean("tie_word_embeddings");
}

// The file counts layers from 1; each must be in exactly one of the two lists.
void read_layer_kinds(const Section& linear, K3Config& config, const std::string& origin) {
  const std::uint64_t layers = config.num_hidden_layers;
  std::vector<int> listed(layers, 0);
  config.is_mla.assign(layers, false);
  for (const char* key : {"kda_layers", "full_attn_layers"}) {
    for (const std::uint64_t layer : linear.integers(key, 1, layers)) {
      if (++listed[layer - 1] > 1) {
        fail(ErrorCode::kCorrupt,
             "{}: layer {} of {} is listed twice; each layer must be once in kda_layers or full_attn_layers",
             origin, layer, linear.path_of(key));
      }
      config.is_mla[layer - 1] = key == std::string_view("full_attn_layers");
    }
  }
  for (std::uint64_t layer = 1; layer <= layers; ++layer) {
    if (listed[layer - 1] == 0) {
      fail(ErrorCode::kCorrupt, "{}: layer {} is in neither {} nor {}", origin, layer,
           linear.path_of("kda_layers"), linear.path_of("full_attn_layers"));
    }
  }
}

void read_linear_attention(const Section& linear, K3Config& config, const std::string& origin) {
  config.kda_num_heads = linear.integer("num_heads", 1, kMaxHeads);
  config.kda_head_dim = linear.integer("head_dim", 1, kMaxHeadWidth);
  config.short_conv_kernel_size = linear.integer("short_conv_kernel_size", 1, 64);
  config.gate_lower_bound = linear.real("gate_lower_bound", -1e6, -1e-6);
  read_layer_kinds(linear, config, origin);
}

VisionConfig read_vision(const Section& section, const std::string& origin) {
  VisionConfig vision;
  vision.vt_num_hidden_layers = section.integer("vt_num_hidden_layers", 1, kMaxLayers);
  vision.vt_hidden_size = section.integer("vt_hidden_size", 1, kMaxWidth);
  vision.vt_intermediate_size = section.integer("vt_intermediate_size", 1, kMaxWidth);
  vision.vt_num_attention_heads = section.integer("vt_num_attention_heads", 1, kMaxHeads);
  vision.qkv_hidden_size = section.integer("qkv_hidden_size", 1, kMaxWidth);
  vision.mm_hidden_size = section.integer("mm_hidden_size", 1, kMaxWidth);
  vision.text_hidden_size = section.integer("text_hidden_size", 1, kMaxWidth);
  vision.patch_size = section.integer("patch_size", 1, 4096);
  vision.init_pos_emb_height = section.integer("init_pos_emb_height", 1, 4096);
  vision.init_pos_emb_width = section.integer("init_pos_emb_width", 1, 4096);
  vision.init_pos_emb_time = section.integer("init_pos_emb_time", 1, 4096);
  const std::vector<std::uint64_t> merge = section.integers("merge_kernel_size", 1, 8);
  if (merge.size() != 2) {
    fail(ErrorCode::kCorrupt, "{}: {} has {} numbers instead of 2", origin,
         section.path_of("merge_kernel_size"), merge.size());
  }
  vision.merge_height = merge[0];
  vision.merge_width = merge[1];
  return vision;
}

}  // namespace

std::uint64_t K3Config::moe_layers() const {
  std::uint64_t count = 0;
  for (std::uint64_t layer = 0; layer < num_hidden_layers; ++layer) count += is_moe(layer) ? 1 : 0;
  return count;
}

K3Config parse_config(std::string_view text, const std::string& origin) {
  const json document = parse_json_document(text, origin);
  const Section root(origin, "", document);
  const Section text_config = root.section("text_config");
  K3Config config;
  read_sizes(text_config, config);
  read_attention(text_config, config);
  read_experts(text_config, config, origin);
  read_scalars(text_config, config);
  read_linear_attention(text_config.section("linear_attn_config"), config, origin);
  config.vision = read_vision(root.section("vision_config"), origin);
  return config;
}

K3Config load_config(const std::filesystem::path& path) {
  return parse_config(read_small_file(path, kMaxDocumentBytes), path.string());
}

}  // namespace perigee
