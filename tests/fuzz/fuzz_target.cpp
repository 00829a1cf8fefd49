// The libFuzzer entry of every target; PERIGEE_FUZZ_CHECK names the function of image_checks.h,
// parser_checks.h, store_checks.h, text_checks.h or grammar_checks.h under test.
#include "fuzz/allocation_guard.h"
#include "fuzz/grammar_checks.h"
#include "fuzz/image_checks.h"
#include "fuzz/parser_checks.h"
#include "fuzz/request_checks.h"
#include "fuzz/store_checks.h"
#include "fuzz/text_checks.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const perigee::fuzz::AllocationGuard guard(size);
  perigee::fuzz::PERIGEE_FUZZ_CHECK({data, size});
  return 0;
}
