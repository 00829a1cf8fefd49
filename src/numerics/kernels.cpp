// Chooses the kernels by what the processor and the operating system support, once per process.
#include "numerics/kernels.h"

namespace perigee {
namespace {

std::vector<const Kernels*> find_available() {
  std::vector<const Kernels*> found = {&scalar_kernels()};
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2")) return found;
  found.push_back(&avx2_kernels());
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi")) {
    found.push_back(&avx512_kernels());
  }
#endif
  return found;
}

}  // namespace

const std::vector<const Kernels*>& available_kernels() {
  static const std::vector<const Kernels*> kAvailable = find_available();
  return kAvailable;
}

const Kernels& best_kernels() {
  return *available_kernels().back();
}

}  // namespace perigee
