#include "base/base64.h"

#include <gtest/gtest.h>

namespace perigee {
namespace {

TEST(Base64, DecodesTheVectorsOfRfc4648) {  // §10
  const std::pair<const char*, const char*> vectors[] = {{"Zg==", "f"},         {"Zm8=", "fo"},
                                                         {"Zm9v", "foo"},       {"Zm9vYg==", "foob"},
                                                         {"Zm9vYmE=", "fooba"}, {"Zm9vYmFy", "foobar"}};
  for (const auto& [text, wanted] : vectors) {
    std::string bytes = "before ";
    EXPECT_TRUE(decode_base64(text, bytes)) << text;
    EXPECT_EQ(bytes, std::string("before ") + wanted);
  }
}

TEST(Base64, DecodesEveryByte) {
  std::string bytes;
  EXPECT_TRUE(decode_base64("AP8Q+/+A", bytes));
  EXPECT_EQ(bytes, std::string("\0\xff\x10\xfb\xff\x80", 6));
}

TEST(Base64, RefusesEverythingElse) {
  for (const char* text : {"", "Z", "Zg", "Zg=", "Zg===", "=Zg=", "Z===", "====", "Zm9v\n", "Zm 9", "Zm9-",
                           "Zh==", "Zm9=", "Zg==Zg=="}) {
    std::string bytes;
    EXPECT_FALSE(decode_base64(text, bytes)) << text;
  }
}

}  // namespace
}  // namespace perigee
