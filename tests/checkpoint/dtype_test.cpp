#include "checkpoint/dtype.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace perigee {
namespace {

// The strings of the format and the bits of each, from the format's documentation.
const std::map<std::string, std::uint32_t> kSpellings = {
    {"BOOL", 8},        {"F4", 4},          {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},   {"I8", 8},
    {"F8_E5M2", 8},     {"F8_E4M3", 8},     {"F8_E8M0", 8}, {"I16", 16},    {"U16", 16}, {"F16", 16},
    {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"BF16", 16},   {"I32", 32},    {"U32", 32}, {"F32", 32},
    {"C64", 64},        {"F64", 64},        {"I64", 64},    {"U64", 64},
};

TEST(DType, KnowsEverySpellingOfTheFormat) {
  for (const auto& [name, bits] : kSpellings) {
    const std::optional<DType> dtype = parse_dtype(name);
    ASSERT_TRUE(dtype) << name;
    EXPECT_EQ(dtype_bits(*dtype), bits) << name;
    EXPECT_EQ(dtype_name(*dtype), name);
  }
}

TEST(DType, RefusesOtherSpellings) {
  for (const char* name : {"", "bf16", "BF16 ", "F8", "F8_E4M3FN", "FLOAT", "U8\n"})
    EXPECT_FALSE(parse_dtype(name)) << name;
}

TEST(DType, HasTwentyTwoTypes) {
  EXPECT_EQ(kSpellings.size(), 22U);
  EXPECT_EQ(static_cast<int>(DType::kU64), 21);
}

}  // namespace
}  // namespace perigee
