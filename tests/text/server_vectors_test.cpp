// Requests to a server of K3 and what must come of them, as far as they are about prompts.
#include <gtest/gtest.h>

#include <filesystem>

#include "text/refusals.h"

namespace perigee {
namespace {

using test::refused_field;
using test::rendered;
using test::server_rules;

class ServerVectors : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto file = test::shared_folder() / "goldens/chat/api.json";
    if (!std::filesystem::exists(file)) GTEST_SKIP() << "needs goldens/chat/api.json";
    const auto all = nlohmann::ordered_json::parse(read_small_file(file, 10'000'000));
    for (const auto& one : all.at("cases")) {
      if (one.at("path") == "/v1/chat/completions" && one.contains("body")) cases_.push_back(one);
    }
  }
  std::vector<nlohmann::ordered_json> cases_;
};

bool concerns_the_prompt(const std::string& param) {
  const auto starts = [&](const char* field) { return param.starts_with(field); };
  return starts("messages") || starts("tool") || starts("response_format") || starts("thinking") ||
         starts("reasoning_effort") || starts("chat_template_kwargs");
}

TEST_F(ServerVectors, AreRefusedForTheFieldTheyName) {
  std::size_t refused = 0;
  for (const auto& one : cases_) {
    const auto expect = one.at("expect");
    const std::string name = one.at("name");
    if (!expect.contains("error") || expect["error"].contains("code")) continue;
    const std::string param = expect["error"].value("param", "");
    // What is wrong with an image's bytes is for the room that decodes images.
    if (!concerns_the_prompt(param) || (name.starts_with("image_") && name != "image_url_missing")) continue;
    EXPECT_EQ(refused_field(one.at("body").dump()), param) << name;
    ++refused;
  }
  EXPECT_GE(refused, 55U);
}

TEST_F(ServerVectors, RenderTheExpectedPrompts) {
  std::size_t compared = 0;
  for (const auto& one : cases_) {
    const auto& expect = one.at("expect");
    if (expect.contains("error")) continue;
    const std::string text = rendered(one.at("body").dump(), server_rules());
    if (expect.contains("prompt") && expect["prompt"].is_string()) {
      EXPECT_EQ(text, expect["prompt"].get<std::string>()) << one.at("name");
      ++compared;
    }
    if (expect.contains("prompt_ends")) {
      EXPECT_TRUE(text.ends_with(expect["prompt_ends"].get<std::string>())) << one.at("name");
      ++compared;
    }
    if (expect.contains("prompt_contains")) {
      EXPECT_NE(text.find(expect["prompt_contains"].get<std::string>()), std::string::npos) << one.at("name");
      ++compared;
    }
  }
  EXPECT_GE(compared, 60U);
}

}  // namespace
}  // namespace perigee
