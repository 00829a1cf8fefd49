// What stands around the tensors of a checkpoint: config.json, hf_quant_config.json and SHA256SUMS must agree
// with the bytes, because engines believe them before they look at a tensor.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engines/matcher.h"
#include "verify/verify.h"

namespace perigee::verifying {

// What the tensors turned out to be.
struct TensorFacts {
  ExpertFormat format = ExpertFormat::kNone;
  bool has_experts = false;
  bool has_input_scales = false;
  bool has_fp8_attention = false;
};

// Manifests, their agreement with the tensors, and whether vLLM and SGLang would load every module of
// `stored` as what it is.
void check_manifests(const std::filesystem::path& output, const TensorFacts& facts,
                     std::span<const StoredModule> stored, FailureList& failures,
                     std::vector<std::string>& warnings);

// Compares SHA256SUMS, if there is one, with `computed` (file name -> hash of what was read) and, for other
// files, with their bytes. Returns whether every line could be compared.
bool check_checksums(const std::filesystem::path& output, const std::map<std::string, std::string>& computed,
                     const CancelToken* cancel, FailureList& failures, std::vector<std::string>& warnings);

}  // namespace perigee::verifying
