// Complete small checkpoints for the verifier's tests: the conversion goldens, which hold only what a library
// changed, joined with the tensors that stay as they are; in memory, so that a test can damage them before
// they are written.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/golden.h"
#include "support/mini_safetensors.h"
#include "support/temp_dir.h"
#include "verify/verify.h"

namespace perigee::test {

struct MemoryCheckpoint {
  std::map<std::string, MiniTensors> files;
  std::map<std::string, nlohmann::json> json;     // config.json and, for ModelOpt, hf_quant_config.json
  std::map<std::string, std::string> weight_map;  // written as the index; index_all() fills it
  std::uint64_t total_size = 0;
  bool types_apart = false;  // tensors in the file sorted by type, as safetensors' own writer does

  void index_all();
  // The tensor, whatever file it is in; fails the test if there is none.
  MiniTensor& tensor(const std::string& name);
  std::string file_of(const std::string& name) const;
  void write(const std::filesystem::path& folder) const;
};

nlohmann::json expected_values();

MemoryCheckpoint load_checkpoint(const std::string& golden_name);
// `source` with its experts replaced by those of golden folder `experts`, and with its manifest.
MemoryCheckpoint convert_by_golden(const std::string& source, const std::string& experts);
// The ModelOpt cast with FP8 attention.
MemoryCheckpoint convert_mixed();

// Writes `output` and verifies it against the golden source folder.
VerifyReport verify(const std::string& source, const MemoryCheckpoint& output,
                    const VerifyOptions& options = {});
VerifyReport verify_folders(const std::filesystem::path& source, const std::filesystem::path& output,
                            const VerifyOptions& options = {});

// All kept messages, one per line.
std::string messages(const VerifyReport& report);

}  // namespace perigee::test
