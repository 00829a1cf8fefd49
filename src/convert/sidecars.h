// The files of a checkpoint that are neither weights nor their metadata: tokenizer, code, chat template,
// licence. They go with a converted checkpoint unchanged, as copies: the source is often a cache of symbolic
// links, and the output must live without it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace perigee {

// A sidecar larger than this is left behind; the largest that K3 has is its vocabulary, 3 MB.
inline constexpr std::uint64_t kMaxSidecarBytes = 64ull << 20;

struct SidecarFile {
  std::string source_name;  // relative to the source folder, "/" between parts, no ".."
  std::string output_name;  // the same, but SOURCE_README.md for the source's README.md
  std::uint64_t bytes = 0;
};

struct SidecarList {
  std::vector<SidecarFile> files;  // sorted by output name
  std::vector<std::string>
      skipped;  // files that are left behind and why, for a warning: too large, oddly named, deep
};

// Left out in silence: weights in any form, config.json, hf_quant_config.json, indexes, hash lists, reports
// of an earlier conversion, unfinished downloads, and everything whose name begins with a dot. Links to files
// are followed, links to folders are not. kNotFound for a link whose target is missing, which is a download
// that has not finished.
SidecarList list_sidecars(const std::filesystem::path& source);

// Copies by content, each file atomically; existing files are replaced, links in the output are never written
// through.
void copy_sidecars(const std::filesystem::path& source, const std::filesystem::path& output,
                   const SidecarList& sidecars);

}  // namespace perigee
