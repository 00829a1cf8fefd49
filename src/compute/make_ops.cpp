#include "base/error.h"
#include "compute/ops.h"
#include "compute/reference/reference_ops.h"

namespace perigee {

std::vector<std::string> available_backends() {
  return {"reference"};
}

std::unique_ptr<Ops> make_ops(const OpsOptions& options) {
  const std::vector<std::string> backends = available_backends();
  const std::string& name = options.backend.empty() ? backends.back() : options.backend;
  if (name == "reference") return std::make_unique<ReferenceOps>(options.precision);
  std::string known;
  for (const std::string& backend : backends) known += (known.empty() ? "" : ", ") + backend;
  fail(ErrorCode::kUnsupported, "backend {} is not one that this machine can run: {}", name, known);
}

}  // namespace perigee
