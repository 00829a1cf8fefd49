#include "base/error.h"
#include "compute/cpu/cpu_ops.h"
#include "compute/ops.h"
#include "compute/reference/reference_ops.h"

namespace perigee {

std::vector<std::string> available_backends() {
  std::vector<std::string> names = {"reference"};
  for (const CpuKernels* kernels : available_cpu_kernels()) names.emplace_back(kernels->name);
  return names;
}

std::unique_ptr<Ops> make_ops(const OpsOptions& options) {
  const std::vector<std::string> backends = available_backends();
  const std::string& name = options.backend.empty() ? backends.back() : options.backend;
  if (name == "reference") return std::make_unique<ReferenceOps>(options.precision);
  for (const CpuKernels* kernels : available_cpu_kernels()) {
    if (name == kernels->name) return std::make_unique<CpuOps>(*kernels, options.precision, options.threads);
  }
  std::string known;
  for (const std::string& backend : backends) known += (known.empty() ? "" : ", ") + backend;
  fail(ErrorCode::kUnsupported, "backend {} is not one that this machine can run: {}", name, known);
}

}  // namespace perigee
