#include "support/fuzz_corpus.h"

#include <gtest/gtest.h>

#include "fuzz/text_checks.h"

namespace perigee::test {
namespace {

TEST(TextFuzzCorpus, OfVocabularyFilesHolds) {
  replay_corpus("fuzz_vocabulary", fuzz::check_vocabulary, 8);
}

TEST(TextFuzzCorpus, OfTextsHolds) {
  replay_corpus("fuzz_encoder", fuzz::check_encoder, 5);
}

TEST(TextFuzzCorpus, OfRepliesHolds) {
  replay_corpus("fuzz_reply", fuzz::check_reply, 40);
}

}  // namespace
}  // namespace perigee::test
