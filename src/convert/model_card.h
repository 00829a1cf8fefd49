// README.md of a converted checkpoint. Every number in it comes from the conversion's report; what cannot be
// taken from there is not claimed.
#pragma once

#include <string>

#include "convert/report.h"

namespace perigee {

// What the report does not know.
struct ModelCardContext {
  std::string base_model = "moonshotai/Kimi-K3";
  std::string source_revision;  // empty if unknown
  std::string license_file;     // name of the licence among the copied files; empty if there is none
  std::string more_options;     // options beyond layout, activations and method, e.g. "--over-span saturate"
};

// Markdown with YAML front matter. Names from the source are quoted, so that none of them can change its
// structure.
std::string make_model_card(const ConversionReport& report, const ModelCardContext& context);

}  // namespace perigee
