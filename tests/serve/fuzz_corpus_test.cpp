#include "support/fuzz_corpus.h"

#include <gtest/gtest.h>

#include "fuzz/request_checks.h"

namespace perigee::test {
namespace {

TEST(RequestFuzzCorpus, Holds) {
  replay_corpus("fuzz_request", fuzz::check_request_body, 27);
}

}  // namespace
}  // namespace perigee::test
