#include "text/chat_tokens.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "support/vocabularies.h"

namespace perigee {
namespace {

class ChatTokensOfNano : public ::testing::Test {
 protected:
  const Tokenizer& tokenizer_ = test::nano_tokenizer();
  const Vocabulary& vocabulary_ = tokenizer_.vocabulary();
  const ChatTokens tokens_ = find_chat_tokens(vocabulary_);
};

TEST_F(ChatTokensOfNano, OnlyFiveSpecialOnesAreEverGenerated) {
  const std::size_t model_ids = vocabulary_.size() + 7;
  std::vector<TokenId> allowed;
  const std::vector<TokenId> never = ids_never_generated(vocabulary_, model_ids);
  for (auto id = static_cast<TokenId>(vocabulary_.ordinary_count()); id < model_ids; ++id) {
    if (!std::binary_search(never.begin(), never.end(), id)) allowed.push_back(id);
  }
  EXPECT_THAT(allowed, ::testing::UnorderedElementsAre(tokens_.open, tokens_.close, tokens_.sep,
                                                       tokens_.end_of_message, tokens_.end_of_text));
  EXPECT_GE(never.front(), vocabulary_.ordinary_count());
}

TEST_F(ChatTokensOfNano, UsageLeavesOutTheOpenedChannel) {
  const std::vector<TokenId> message = {65, 66, tokens_.close, 67, tokens_.sep, tokens_.end_of_message};
  EXPECT_EQ(counted_prompt_tokens(message, vocabulary_), message.size());
  std::vector<TokenId> opened = message;
  opened.insert(opened.end(), {tokens_.open, 't', tokens_.sep});
  EXPECT_EQ(counted_prompt_tokens(opened, vocabulary_), message.size());
  EXPECT_EQ(counted_prompt_tokens({}, vocabulary_), 0u);
}

}  // namespace
}  // namespace perigee
