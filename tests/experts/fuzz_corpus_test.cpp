#include "support/fuzz_corpus.h"

#include <gtest/gtest.h>

#include "experts/small_store_index.h"
#include "fuzz/store_checks.h"

namespace perigee::test {
namespace {

TEST(FuzzCorpus, OfStoreIndexesHolds) {
  replay_corpus("fuzz_store_index", fuzz::check_store_index, 6);
}

// What a fuzzer does in hours, for a second: every byte of a valid index becomes every value that is likely
// to hurt.
TEST(StoreIndexFile, HoldsForEveryByteReplaced) {
  const std::string good = serialize_store_index(small_index());
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const unsigned char value : {0x00, 0x01, 0x02, 0x7F, 0x80, 0xFF}) {
      std::string bad = good;
      bad[i] = static_cast<char>(value);
      fuzz::check_store_index({reinterpret_cast<const std::uint8_t*>(bad.data()), bad.size()});
    }
  }
}

}  // namespace
}  // namespace perigee::test
