// What stands around the tensors of a checkpoint: config.json, hf_quant_config.json and SHA256SUMS must agree
// with the bytes, because engines believe them before they look at a tensor.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "convert/verify.h"

namespace perigee::verifying {

// What the tensors turned out to be.
struct TensorFacts {
  ExpertFormat format = ExpertFormat::kNone;
  bool has_experts = false;
  bool has_input_scales = false;
  bool has_fp8_attention = false;
};

// Manifests and their agreement with the tensors.
void check_manifests(const std::filesystem::path& output, const TensorFacts& facts, FailureList& failures,
                     std::vector<std::string>& warnings);

// Compares SHA256SUMS, if there is one, with `computed` (file name -> hash of what was read) and, for other
// files, with their bytes. Returns whether every line could be compared.
bool check_checksums(const std::filesystem::path& output, const std::map<std::string, std::string>& computed,
                     const CancelToken* cancel, FailureList& failures, std::vector<std::string>& warnings);

}  // namespace perigee::verifying
