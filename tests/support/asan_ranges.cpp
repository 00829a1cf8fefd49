// Checks of vectors for kernels under AddressSanitizer. With PERIGEE_LEAN_SANITIZING (cmake/warnings.cmake)
// these are calls, and those of libasan look at every byte, which took three quarters of the time of the
// sanitized tests. Here every sixteenth byte and the last stand for all: no red zone is smaller. A store is
// reported as a read.
#include <cstddef>

namespace {

// Instrumented as every access of this file.
void touch(const void* bytes, std::size_t size) {
  const volatile char* const first = static_cast<const volatile char*>(bytes);
  for (std::size_t at = 0; at < size; at += 16) static_cast<void>(first[at]);
  static_cast<void>(first[size - 1]);
}

}  // namespace

extern "C" {
// The compiler's own names for them.
void __asan_loadN(const void* bytes, std::size_t size) {
  touch(bytes, size);
}
void __asan_storeN(void* bytes, std::size_t size) {
  touch(bytes, size);
}
}
