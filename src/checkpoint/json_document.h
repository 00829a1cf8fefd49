// Small JSON documents (config.json, hf_quant_config.json) as a tree, read more strictly than nlohmann-json
// does by itself: no key twice, bounded depth and size. Not for headers and indexes; those are walked
// (json_walk.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace perigee {

// K3's config.json has 7 kB; quantisation manifests that list every layer have some MB.
inline constexpr std::uint64_t kMaxDocumentBytes = 16'000'000;

// kCorrupt naming `origin` if the text is not exactly one JSON object.
nlohmann::json parse_json_document(std::string_view text, const std::string& origin);
nlohmann::json load_json_document(const std::filesystem::path& path);

}  // namespace perigee
