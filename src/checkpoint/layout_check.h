// Compares tensors with the layout that a config asks for, whatever form the experts and the attention are
// stored in. Values are not looked at.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/index.h"
#include "checkpoint/safetensors.h"

namespace perigee {

class LayoutCheck {
 public:
  explicit LayoutCheck(const K3Config& config);

  // One sentence if the tensor is not of the config's layout or its shape or type is not right; nothing if it
  // is. Only for names that parse_tensor_name() knows. A_log is accepted in any length.
  std::optional<std::string> fault_of(const TensorInfo& tensor) const;

  // One sentence per class of tensors that the config asks for and the index lacks.
  std::vector<std::string> absent_from(const CheckpointIndex& index) const;

 private:
  std::unordered_map<std::string, TensorInfo> expected_;  // by released name
};

}  // namespace perigee
