// `perigee inspect --tensor`: blocks in human form.

#include <algorithm>
#include <cmath>
#include <utility>

#include "checkpoint/safetensors.h"
#include "cli/inspect_views.h"
#include "cli/text_table.h"

namespace perigee {
namespace {

constexpr std::size_t kPerLine = 8;

// Enough digits that two floats that differ look different.
std::string number(double value) {
  return fmt::format("{:.9g}", value);
}

// "2^-6" where that is what it is.
std::string scale_number(double value) {
  int exponent = 0;
  const bool power_of_two = std::isfinite(value) && value > 0 && std::frexp(value, &exponent) == 0.5;
  return power_of_two ? fmt::format("2^{} = {}", exponent - 1, number(value)) : number(value);
}

std::string header_text(const BlockView& view) {
  std::string text = fmt::format("{}  {} {}\n", view.tensor, dtype_name(view.dtype), shape_text(view.shape));
  if (!view.scale_tensor.empty()) text += fmt::format("{}\n", view.scale_tensor);
  if (view.tensor_scale) {
    text += fmt::format("{}  {}\n", view.tensor_scale_name, scale_number(*view.tensor_scale));
  }
  const char* operation = view.tensor_scale_divides ? "/ tensor scale" : "* tensor scale";
  switch (view.kind) {
    case BlockKind::kMxfp4:
      text += "MXFP4: value = E2M1 * E8M0 block scale, blocks of 32\n";
      break;
    case BlockKind::kNvfp4:
      text += fmt::format("NVFP4: value = E2M1 * E4M3 block scale {}, blocks of 16\n", operation);
      break;
    case BlockKind::kFp8:
      text += "FP8: value = E4M3 * tile scale, tiles of 128 x 128\n";
      break;
    case BlockKind::kPlain:
      break;
  }
  return text + fmt::format("row {} of {}, {} columns in {} group{}\n", view.row, with_commas(view.rows),
                            with_commas(view.columns), with_commas(view.groups_per_row),
                            plural(view.groups_per_row));
}

std::string block_title(const BlockView& view, const Block& block) {
  std::string text = fmt::format("\ngroup {}  columns {}..{}", block.group, block.first_column,
                                 block.first_column + block.values.size() - 1);
  if (view.kind == BlockKind::kMxfp4 || view.kind == BlockKind::kNvfp4) {
    text += fmt::format("  scale 0x{:02X} = {}", block.scale_code, scale_number(block.scale));
  } else if (view.kind == BlockKind::kFp8) {
    text += fmt::format("  tile scale {}", scale_number(block.scale));
  }
  return text + '\n';
}

std::string block_lines(const BlockView& view, const Block& block, std::size_t value_width) {
  const int code_digits = view.kind == BlockKind::kFp8 ? 2 : 1;
  std::string text;
  for (std::size_t first = 0; first < block.values.size(); first += kPerLine) {
    const std::size_t end = std::min(first + kPerLine, block.values.size());
    std::string codes, values;
    for (std::size_t i = first; i < end; ++i) {
      if (!block.codes.empty()) codes += fmt::format(" {:0{}X}", block.codes[i], code_digits);
      values += fmt::format("  {:>{}}", number(block.values[i]), value_width);
    }
    if (!codes.empty()) codes.resize(kPerLine * (code_digits + 1), ' ');
    text += fmt::format("{:>7}:{}{}\n", block.first_column + first, codes, values);
  }
  return text;
}

// JSON has no NaN or infinity.
Json number_json(double value) {
  return std::isfinite(value) ? Json(value) : Json(fmt::format("{}", value));
}

}  // namespace

std::string blocks_text(const BlockView& view) {
  std::string text = header_text(view);
  std::size_t width = 1;
  for (const Block& block : view.blocks) {
    for (const double value : block.values) width = std::max(width, number(value).size());
  }
  for (const Block& block : view.blocks) text += block_title(view, block) + block_lines(view, block, width);
  return text;
}

Json blocks_json(const BlockView& view) {
  Json json = {{"tensor", view.tensor},
               {"kind", block_kind_name(view.kind)},
               {"dtype", std::string(dtype_name(view.dtype))},
               {"shape", view.shape},
               {"rows", view.rows},
               {"columns", view.columns},
               {"group_size", view.group_size},
               {"groups_per_row", view.groups_per_row},
               {"row", view.row}};
  if (!view.scale_tensor.empty()) json["scale_tensor"] = view.scale_tensor;
  if (view.tensor_scale) {
    json["tensor_scale"] = {{"name", view.tensor_scale_name},
                            {"value", number_json(*view.tensor_scale)},
                            {"divides", view.tensor_scale_divides}};
  }
  json["blocks"] = Json::array();
  for (const Block& block : view.blocks) {
    Json entry = {{"group", block.group}, {"first_column", block.first_column}};
    if (view.kind == BlockKind::kMxfp4 || view.kind == BlockKind::kNvfp4)
      entry["scale_code"] = block.scale_code;
    if (view.kind != BlockKind::kPlain) {
      entry["scale"] = number_json(block.scale);
      entry["codes"] = block.codes;
    }
    entry["values"] = Json::array();
    for (const double value : block.values) entry["values"].push_back(number_json(value));
    json["blocks"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace perigee
