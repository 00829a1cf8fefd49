#include "fuzz/allocation_guard.h"

#include <sanitizer/allocator_interface.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace perigee::fuzz {
namespace {

constexpr std::int64_t kFreeAllowance = 64'000'000;

// The hooks carry no context, so this cannot be a member.
std::atomic<bool> counting = false;
std::atomic<std::int64_t> held = 0;
std::atomic<std::int64_t> allowed = 0;

void on_malloc(const volatile void*, std::size_t size) {
  if (!counting) return;
  held += static_cast<std::int64_t>(size);
  if (held <= allowed) return;
  counting = false;
  std::fprintf(stderr, "the parser holds %lld bytes, more than 2 x input + 64 MB = %lld\n",
               static_cast<long long>(held), static_cast<long long>(allowed));
  std::abort();
}

void on_free(const volatile void* pointer) {
  if (!counting || pointer == nullptr) return;
  held -= static_cast<std::int64_t>(__sanitizer_get_allocated_size(pointer));
}

}  // namespace

AllocationGuard::AllocationGuard(std::size_t input_bytes) {
  static const int installed = __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
  if (installed == 0) std::abort();
  held = 0;
  allowed = 2 * static_cast<std::int64_t>(input_bytes) + kFreeAllowance;
  counting = true;
}

AllocationGuard::~AllocationGuard() {
  counting = false;
}

}  // namespace perigee::fuzz
