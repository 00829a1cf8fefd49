#include "support/fuzz_corpus.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "support/paths.h"

namespace perigee::test {

void replay_corpus(const std::string& target, const FuzzCheck& check, std::size_t at_least) {
  namespace fs = std::filesystem;
  const fs::path corpus = data_folder().parent_path() / "fuzz/corpus" / target;
  std::size_t inputs = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(corpus)) {
    SCOPED_TRACE(entry.path().string());
    const std::string bytes = read_small_file(entry.path(), 1'000'000);
    EXPECT_NO_THROW(check({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}));
    ++inputs;
  }
  EXPECT_GE(inputs, at_least);
}

}  // namespace perigee::test
