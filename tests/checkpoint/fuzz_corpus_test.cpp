#include "support/fuzz_corpus.h"

#include <gtest/gtest.h>

#include "fuzz/parser_checks.h"

namespace perigee::test {
namespace {

TEST(FuzzCorpus, OfSafetensorsHeadersHolds) {
  replay_corpus("fuzz_safetensors_header", fuzz::check_safetensors_header, 40);
}

TEST(FuzzCorpus, OfIndexesHolds) {
  replay_corpus("fuzz_index", fuzz::check_index, 40);
}

TEST(FuzzCorpus, OfConfigsHolds) {
  replay_corpus("fuzz_config", fuzz::check_config, 40);
}

}  // namespace
}  // namespace perigee::test
