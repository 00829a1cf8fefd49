#include "convert/quantised_layers.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace perigee {
namespace {

using Parts = std::vector<std::string_view>;

// docs/formats.md, "FP8 attention": all projections but the convolutions.
const Parts kKdaParts = {"b_proj", "f_a_proj", "f_b_proj", "g_proj", "k_proj", "o_proj", "q_proj", "v_proj"};
const Parts kMlaParts = {"g_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj", "q_a_proj", "q_b_proj"};

// Engines stack the projections of a layer kind under other names; the first part decides which layers have
// one. fused_qkvg_proj and in_proj_qkvgfab are declared for MLA layers too, because of their g_proj:
// ModelOpt's rule is "any part is quantised", and its published files say so.
constexpr std::array<std::string_view, 2> kFusedInEveryLayer = {"fused_qkvg_proj", "in_proj_qkvgfab"};
constexpr std::array<std::string_view, 2> kFusedInMlaLayers = {"fused_qkv_a_proj_with_mqa",
                                                               "fused_qkv_a_proj"};

std::string attention_module(std::uint64_t layer, std::string_view part) {
  return fmt::format("language_model.model.layers.{}.self_attn.{}", layer, part);
}

}  // namespace

std::vector<std::string> expert_banks(const K3Config& config) {
  std::vector<std::string> banks;
  for (std::uint64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    if (!config.is_moe(layer)) continue;
    banks.push_back(fmt::format("language_model.model.layers.{}.block_sparse_moe.experts", layer));
  }
  return banks;
}

std::vector<std::string> fp8_projections(const K3Config& config) {
  std::vector<std::string> modules;
  for (std::uint64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    for (const std::string_view part : config.is_mla.at(layer) ? kMlaParts : kKdaParts) {
      modules.push_back(attention_module(layer, part));
    }
  }
  return modules;
}

std::vector<std::string> fused_fp8_modules(const K3Config& config) {
  std::vector<std::string> modules;
  for (std::uint64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    for (const std::string_view part : kFusedInEveryLayer) modules.push_back(attention_module(layer, part));
    if (!config.is_mla.at(layer)) continue;
    for (const std::string_view part : kFusedInMlaLayers) modules.push_back(attention_module(layer, part));
  }
  return modules;
}

std::vector<std::string> name_spellings(std::string_view released) {
  static constexpr std::string_view kModel = "language_model.model.";
  static constexpr std::string_view kOuter = "language_model.";
  static constexpr std::string_view kReleasedMoe = "block_sparse_moe";
  std::vector<std::string_view> prefixed = {released};
  if (released.starts_with(kModel)) prefixed.push_back(released.substr(kModel.size()));
  if (released.starts_with(kOuter)) prefixed.push_back(released.substr(kOuter.size()));
  std::vector<std::string> spellings;
  for (const std::string_view name : prefixed) {
    spellings.emplace_back(name);
    const std::size_t moe = name.find(kReleasedMoe);
    if (moe == std::string_view::npos) continue;
    spellings.push_back(fmt::format("{}mlp{}", name.substr(0, moe), name.substr(moe + kReleasedMoe.size())));
  }
  return spellings;
}

}  // namespace perigee
