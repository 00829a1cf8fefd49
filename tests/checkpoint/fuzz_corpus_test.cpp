// Replays the committed inputs of the fuzz targets, so that a fault found once is looked for in every build.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "base/file.h"
#include "fuzz/parser_checks.h"
#include "support/paths.h"

namespace perigee::test {
namespace {

namespace fs = std::filesystem;

using Check = std::function<void(std::span<const std::uint8_t>)>;

// A check that fails ends the process; the trace names the input.
void replay(const std::string& target, const Check& check) {
  const fs::path corpus = test::data_folder().parent_path() / "fuzz/corpus" / target;
  std::size_t inputs = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(corpus)) {
    SCOPED_TRACE(entry.path().string());
    const std::string bytes = read_small_file(entry.path(), 1'000'000);
    EXPECT_NO_THROW(check({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}));
    ++inputs;
  }
  EXPECT_GE(inputs, 40U);
}

TEST(FuzzCorpus, OfSafetensorsHeadersHolds) {
  replay("fuzz_safetensors_header", fuzz::check_safetensors_header);
}

TEST(FuzzCorpus, OfIndexesHolds) {
  replay("fuzz_index", fuzz::check_index);
}

TEST(FuzzCorpus, OfConfigsHolds) {
  replay("fuzz_config", fuzz::check_config);
}

}  // namespace
}  // namespace perigee::test
