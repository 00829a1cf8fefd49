// Every row of the malformed tables is refused as corrupt, with its own sentence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/config.h"
#include "checkpoint/index.h"
#include "checkpoint/malformed_cases.h"
#include "checkpoint/safetensors.h"
#include "support/temp_dir.h"

namespace perigee::test {
namespace {

constexpr const char* kOrigin = "input";

void expect_refused(const MalformedCase& input, const std::string& origin,
                    const std::function<void()>& parse) {
  SCOPED_TRACE(input.name);
  try {
    parse();
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt) << error.what();
    EXPECT_THAT(error.what(), ::testing::StartsWith(origin + input.sentence));
  }
}

void parse_header(const MalformedCase& input) {
  static_cast<void>(parse_safetensors_header(std::as_bytes(std::span(input.bytes)),
                                             8 + input.bytes.size() + input.data, kOrigin));
}

TEST(MalformedHeader, IsRefusedWithItsSentence) {
  for (const MalformedCase& input : malformed_headers())
    expect_refused(input, kOrigin, [&] { parse_header(input); });
}

TEST(MalformedLayout, IsRefusedWithItsSentence) {
  for (const MalformedCase& input : malformed_layouts())
    expect_refused(input, kOrigin, [&] { parse_header(input); });
}

TEST(MalformedFile, IsRefusedWithItsSentence) {
  const TempDir folder;
  const std::filesystem::path path = folder / "m.safetensors";
  for (const MalformedCase& input : malformed_files()) {
    write_file_atomically(path, input.bytes);
    expect_refused(input, path.string(), [&] { static_cast<void>(SafetensorsFile::open(path)); });
  }
}

TEST(MalformedIndex, IsRefusedWithItsSentence) {
  for (const MalformedCase& input : malformed_indexes())
    expect_refused(input, kOrigin, [&] { static_cast<void>(parse_index(input.bytes, kOrigin)); });
}

TEST(MalformedConfig, IsRefusedWithItsSentence) {
  for (const MalformedCase& input : malformed_configs())
    expect_refused(input, kOrigin, [&] { static_cast<void>(parse_config(input.bytes, kOrigin)); });
}

TEST(MalformedTables, NameEveryRowOnce) {
  std::set<std::string> names;
  for (const auto& table : {malformed_headers(), malformed_layouts(), malformed_files(), malformed_indexes(),
                            malformed_configs()}) {
    for (const MalformedCase& input : table) EXPECT_TRUE(names.insert(input.name).second) << input.name;
  }
}

}  // namespace
}  // namespace perigee::test
