// A copy of a small checkpoint in which some tensors have other values, in a temporary folder that disappears
// with this object. For proofs on models of a few megabytes.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace perigee {

class PatchedCheckpoint {
 public:
  // `values` replace those of the F32 tensors of these names. kNotFound for a tensor that is not there,
  // kCorrupt for one of another type or size, kUnsupported if the checkpoint is large.
  PatchedCheckpoint(const std::filesystem::path& checkpoint,
                    const std::map<std::string, std::vector<float>>& values);
  ~PatchedCheckpoint();
  PatchedCheckpoint(const PatchedCheckpoint&) = delete;
  PatchedCheckpoint& operator=(const PatchedCheckpoint&) = delete;

  const std::filesystem::path& folder() const { return folder_; }

 private:
  void copy_files(const std::filesystem::path& checkpoint) const;
  void patch(const std::map<std::string, std::vector<float>>& values) const;

  std::filesystem::path folder_;
};

}  // namespace perigee
