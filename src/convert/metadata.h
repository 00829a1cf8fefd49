// config.json and hf_quant_config.json of a converted checkpoint: the source's config with the old
// quantisation manifest taken out wherever it was, and the new one put where engines look (docs/formats.md,
// "Metadata"). Text in, text out; no files.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/config.h"
#include "convert/target_layout.h"

namespace perigee {

struct Metadata {
  std::string config_json;                          // indent 2, sorted keys, trailing newline
  std::optional<std::string> hf_quant_config_json;  // the ModelOpt layouts only
};

// `source_json` is the source's config.json and `config` what it parsed to; `origin` names it in errors.
// kCorrupt if it is not a JSON object or nests too deep; kUnsupported naming the JSON path if an NVFP4
// layout's config would still contain the word "mxfp4" or a second quantisation manifest, either of which
// hijacks an engine's dispatch.
Metadata make_metadata(std::string_view source_json, const std::string& origin, const K3Config& config,
                       Layout layout, Activations activations);

}  // namespace perigee
