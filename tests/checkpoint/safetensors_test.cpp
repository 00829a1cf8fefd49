#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "checkpoint/malformed_cases.h"
#include "support/paths.h"
#include "support/temp_dir.h"

namespace perigee::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

SafetensorsHeader parse(const std::string& json, std::uint64_t data_bytes) {
  return parse_safetensors_header(std::as_bytes(std::span(json)), 8 + json.size() + data_bytes, "input");
}

std::vector<std::string> names_of(const SafetensorsHeader& header) {
  std::vector<std::string> names;
  for (const TensorInfo& tensor : header.tensors) names.push_back(tensor.name);
  return names;
}

TEST(SafetensorsHeader, AcceptsAFileWithoutTensors) {
  EXPECT_THAT(parse("{}", 0).tensors, IsEmpty());
  const SafetensorsHeader header = parse(R"({"__metadata__":{"format":"pt","":"\u00e9"}})", 0);
  EXPECT_THAT(header.tensors, IsEmpty());
  EXPECT_THAT(header.metadata, ElementsAre(std::pair("", "\xC3\xA9"), std::pair("format", "pt")));
}

TEST(SafetensorsHeader, AcceptsPaddingWithSpacesAndWhiteSpaceInside) {
  const SafetensorsHeader header =
      parse("{\n\t\"a\" : {\"shape\":[ 2 , 2 ],\r\n\"data_offsets\":[0, 8],\"dtype\":\"F16\"} }    ", 8);
  ASSERT_EQ(header.tensors.size(), 1U);
  EXPECT_EQ(header.tensors[0].dtype, DType::kF16);
  EXPECT_THAT(header.tensors[0].shape, ElementsAre(2, 2));
  EXPECT_EQ(header.tensors[0].elements(), 4U);
}

TEST(SafetensorsHeader, KnowsScalarsAndTensorsWithoutBytes) {
  const SafetensorsHeader header =
      parse(object(tensor("none", "F32", "0,7", 4, 4) + "," + tensor("after", "U8", "3", 4, 7) + "," +
                   tensor("scalar", "F32", "", 0, 4) + "," + tensor("last", "U8", "0", 7, 7)),
            7);
  EXPECT_THAT(names_of(header), ElementsAre("scalar", "none", "after", "last"));
  EXPECT_EQ(header.find("scalar")->elements(), 1U);
  EXPECT_EQ(header.find("none")->bytes(), 0U);
}

TEST(SafetensorsHeader, OrdersTensorsByOffset) {
  const SafetensorsHeader header =
      parse(object(tensor("z", "U8", "2", 3, 5) + "," + tensor("y", "U8", "3", 0, 3)), 5);
  EXPECT_THAT(names_of(header), ElementsAre("y", "z"));
  EXPECT_EQ(header.find("z"), &header.tensors[1]);
  EXPECT_EQ(header.find("x"), nullptr);
}

TEST(SafetensorsHeader, CountsSubByteTypesInBits) {
  EXPECT_EQ(parse(object(tensor("a", "F4", "3,2", 0, 3)), 3).tensors[0].bytes(), 3U);
  EXPECT_EQ(parse(object(tensor("a", "F6_E3M2", "4", 0, 3)), 3).tensors[0].bytes(), 3U);
}

TEST(SafetensorsHeader, DecodesEscapesInNames) {
  const SafetensorsHeader header =
      parse(object(tensor(R"(\u0061\"\\\/\u00e9\ud83d\ude00)", "U8", "1", 0, 1)), 1);
  EXPECT_THAT(names_of(header), ElementsAre("a\"\\/\xC3\xA9\xF0\x9F\x98\x80"));
}

TEST(SafetensorsHeader, TakesNamesThatLookLikePathsAsMereNames) {
  EXPECT_THAT(names_of(parse(object(tensor("../../etc/passwd", "U8", "1", 0, 1)), 1)),
              ElementsAre("../../etc/passwd"));
}

TEST(SafetensorsHeader, AcceptsIntegersUpToTwoToThe63) {
  const SafetensorsHeader header = parse(object(tensor("a", "U8", "0,9223372036854775808", 0, 0)), 0);
  EXPECT_THAT(header.tensors[0].shape, ElementsAre(0, std::uint64_t{1} << 63));
}

// Quadratic work on as many would take hours.
TEST(SafetensorsHeader, RefusesManyOverlappingTensorsWithoutDelay) {
  std::string json = "{";
  for (int i = 0; i < 100'000; ++i) {
    if (i > 0) json += ',';
    json += tensor("t" + std::to_string(i), "U8", "4", 0, 4);
  }
  json += '}';
  EXPECT_THROW(parse(json, 4), Error);
}

TEST(SafetensorsHeader, LocatesDataAfterTheHeader) {
  const std::string json = object(tensor("a", "U8", "5", 0, 5));
  const SafetensorsHeader header = parse(json, 5);
  EXPECT_EQ(header.data_offset, 8 + json.size());
  EXPECT_EQ(header.data_bytes, 5U);
}

TEST(SafetensorsWriter, GivesOffsetsWithoutGaps) {
  std::vector<TensorInfo> tensors(3);
  tensors[0] = {"a", DType::kBF16, {2, 3}};
  tensors[1] = {"b", DType::kF32, {0}};
  tensors[2] = {"c", DType::kF32, {}};
  EXPECT_EQ(assign_offsets(tensors), 16U);
  EXPECT_EQ(tensors[1].begin, 12U);
  EXPECT_EQ(tensors[1].end, 12U);
  EXPECT_EQ(tensors[2].begin, 12U);
  EXPECT_EQ(tensors[2].end, 16U);
}

TEST(SafetensorsWriter, WritesCompactJsonInOrderPaddedToEight) {
  std::vector<TensorInfo> tensors(2);
  tensors[0] = {"b\"", DType::kU8, {2, 3}};
  tensors[1] = {"a", DType::kF32, {}};
  assign_offsets(tensors);
  const std::string bytes = serialize_safetensors_header(tensors, {{"format", "pt"}});
  const std::string json =
      R"({"__metadata__":{"format":"pt"},"b\"":{"dtype":"U8","shape":[2,3],"data_offsets":[0,6]},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[6,10]}})";
  ASSERT_EQ(bytes.size() % 8, 0U);
  EXPECT_EQ(bytes.substr(8, json.size()), json);
  EXPECT_EQ(bytes.find_first_not_of(' ', 8 + json.size()), std::string::npos);
  EXPECT_LT(bytes.size() - 8 - json.size(), 8U);
  EXPECT_EQ(static_cast<std::size_t>(static_cast<unsigned char>(bytes[0])), bytes.size() - 8);
  EXPECT_EQ(bytes.substr(1, 7), std::string(7, '\0'));
}

TEST(SafetensorsWriter, WritesAFileWithoutAnything) {
  EXPECT_EQ(serialize_safetensors_header({}, {}), std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
}

TEST(SafetensorsWriter, RefusesAHeaderBeyondTheFormatsLimit) {
  const std::vector<TensorInfo> tensors(11, TensorInfo{std::string(10'000'000, 'a'), DType::kU8, {0}});
  EXPECT_THROW(serialize_safetensors_header(tensors, {}), Error);
}

TEST(SafetensorsFile, ReadsOneTensor) {
  const TempDir folder;
  std::vector<TensorInfo> tensors(2);
  tensors[0] = {"a", DType::kU8, {3}};
  tensors[1] = {"b", DType::kU8, {2}};
  assign_offsets(tensors);
  write_file_atomically(folder / "m.safetensors", serialize_safetensors_header(tensors, {}) + "12345");
  for (const Caching caching : {Caching::kBuffered, Caching::kDirect}) {
    const SafetensorsFile file = SafetensorsFile::open(folder / "m.safetensors", caching);
    EXPECT_THAT(file.read("b"), ElementsAre(std::byte{'4'}, std::byte{'5'}));
    EXPECT_EQ(file.position(file.header.tensors[1]), file.header.data_offset + 3);
    try {
      static_cast<void>(file.read("c"));
      ADD_FAILURE() << "read a tensor that is not there";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kNotFound);
      EXPECT_EQ(error.what(), (folder / "m.safetensors").string() + " has no tensor \"c\"");
    }
  }
}

TEST(SafetensorsFile, ReadsWhatTheReferenceLibraryWrote) {
  const SafetensorsFile file =
      SafetensorsFile::open(test::data_folder() / "convert/source/model-00001-of-000003.safetensors");
  EXPECT_EQ(file.header.tensors.back().end, file.header.data_bytes);
  EXPECT_EQ(file.header.data_offset % 8, 0U);
  for (const TensorInfo& tensor : file.header.tensors)
    EXPECT_EQ(tensor.bytes(), tensor.elements() * dtype_bits(tensor.dtype) / 8) << tensor.name;
}

TEST(SafetensorsFile, FollowsSymbolicLinksButNotLoops) {
  const TempDir folder;
  write_file_atomically(folder / "blob", serialize_safetensors_header({}, {}));
  std::filesystem::create_symlink("blob", folder / "link.safetensors");
  EXPECT_THAT(SafetensorsFile::open(folder / "link.safetensors").header.tensors, IsEmpty());
  std::filesystem::create_symlink("loop.safetensors", folder / "loop.safetensors");
  EXPECT_THROW(static_cast<void>(SafetensorsFile::open(folder / "loop.safetensors")), Error);
}

}  // namespace
}  // namespace perigee::test
