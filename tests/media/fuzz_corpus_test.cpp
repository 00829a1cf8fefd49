#include "support/fuzz_corpus.h"

#include <gtest/gtest.h>

#include "fuzz/image_checks.h"

namespace perigee::test {
namespace {

TEST(MediaFuzzCorpus, Holds) {
  replay_corpus("fuzz_image", fuzz::check_image, 12);
}

}  // namespace
}  // namespace perigee::test
