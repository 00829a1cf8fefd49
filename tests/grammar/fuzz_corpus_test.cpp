#include <gtest/gtest.h>

#include "fuzz/grammar_checks.h"
#include "support/fuzz_corpus.h"

namespace perigee {
namespace {

TEST(SchemaFuzzTarget, HoldsForItsCorpus) {
  test::replay_corpus("fuzz_schema", fuzz::check_schema, 20);
}

}  // namespace
}  // namespace perigee
