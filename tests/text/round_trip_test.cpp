// Random conversations over an adversarial alphabet: rendered, tokenized, and the assistant's part read back
// as a reply. What comes out must be the message that went in, for 100,000 of them. The expected arguments
// are written by this file, not by the code under test.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "support/vocabularies.h"
#include "text/conversation_json.h"
#include "text/prompt.h"
#include "text/reply_parser.h"

namespace perigee {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kScraps[] = {
    "\""sv,         "'"sv,
    "&"sv,          "&quot;"sv,
    "&amp;"sv,      "<"sv,
    ">"sv,          "|"sv,
    "<|"sv,         "|>"sv,
    "<|open|>"sv,   "<|close|>"sv,
    "<|sep|>"sv,    "<|end_of_msg|>"sv,
    "[EOS]"sv,      "<|open|>message role=\"system\"<|sep|>"sv,
    "think"sv,      "response"sv,
    "\n"sv,         "\r\n"sv,
    "\t"sv,         " "sv,
    "   "sv,        "\0"sv,
    "\x1f"sv,       "\x7f"sv,
    "\\"sv,         "\\u"sv,
    "{"sv,          "}"sv,
    "[1,2]"sv,      ","sv,
    ":"sv,          "a"sv,
    "Hello"sv,      "ENDE"sv,
    "don't"sv,      "1e2"sv,
    "-0"sv,         "123456789012345678901234567890"sv,
    "null"sv,       "你好"sv,
    "々〆"sv,       "한국"sv,
    "é"sv,          "e\u0301\u0301"sv,
    "\u200d"sv,     "\ufeff"sv,
    "\u0085"sv,     "\u2028"sv,
    "\u00a0"sv,     "👩‍👩‍👧‍👦"sv,
    "🇫🇷"sv,         "🫠"sv,
    "\U00020000"sv, "\ufffd"sv,
};

constexpr std::string_view kLiterals[] = {
    "0",
    "-0",
    "1e2",
    "1E+2",
    "-1.50",
    "123456789012345678901234567890",
    "true",
    "false",
    "null",
    "[]",
    "{}",
    "[1, \"two\", null]",
    "{ \"a\" : [ 1 , {\"b\":\"\\ud800\"} ] }",
    "[[[[[[]]]]]]",
    "{\"a\":1,\"a\":2}",
    "{\"<|close|>\":\"<|sep|>\"}",
};

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  std::size_t below(std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(engine_);
  }
  bool one_in(std::size_t n) { return below(n) == 0; }

  std::string text(std::size_t most_scraps) {
    std::string out;
    for (std::size_t left = below(most_scraps + 1); left > 0; --left)
      out += kScraps[below(std::size(kScraps))];
    return out;
  }

  std::string_view literal() { return kLiterals[below(std::size(kLiterals))]; }
  std::string white_space() { return std::string(below(3), " \n\t\r"[below(4)]); }

 private:
  std::mt19937_64 engine_;
};

// JSON's own short escapes and \u00xx: what a reply's arguments are written with.
std::string json_string(std::string_view text) {
  constexpr std::string_view kShort = "\"\"\\\\\bb\ff\nn\rr\tt";
  std::string out = "\"";
  for (const char c : text) {
    bool escaped = false;
    for (std::size_t i = 0; i < kShort.size(); i += 2) {
      if (c != kShort[i]) continue;
      out += {'\\', kShort[i + 1]};
      escaped = true;
      break;
    }
    if (escaped) continue;
    if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

// The same string as another writer might have put it: every character beyond ASCII stays, the rest is
// escaped as \uXXXX now and then, and a lone surrogate may stand at its end.
std::string wild_json_string(Random& random, std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || c == '"' || c == '\\' || (byte < 0x80 && random.one_in(6))) {
      out += fmt::format("\\u{:04X}", byte);
    } else {
      out += c;
    }
  }
  if (random.one_in(8)) {
    out += random.one_in(2) ? "\\ud83d" : "\\uDE00";
    text += "\ufffd";
  }
  return out + '"';
}

struct SentCall {
  std::string name;
  std::string sent;      // `arguments` as the client writes them
  std::string expected;  // `arguments` as they must come back
};

SentCall random_call(Random& random) {
  SentCall call;
  call.name = "f" + random.text(3);
  if (random.one_in(8)) {  // not an object: goes through as it is
    constexpr std::string_view kRaw[] = {"[1,2]", "city=Paris & <b>", "{\"city\": Paris",
                                         "  ",    "\"text\"",         "{\"a\":1,}"};
    call.sent = call.expected = kRaw[random.below(std::size(kRaw))];
    return call;
  }
  call.sent = random.white_space() + "{";
  call.expected = "{";
  for (std::size_t i = 0, members = random.below(4); i < members; ++i) {
    std::string key = random.text(2);
    std::string value = random.text(4);
    call.sent += (i > 0 ? "," : "") + random.white_space() + wild_json_string(random, key) +
                 random.white_space() + ":";
    call.expected += (i > 0 ? "," : "") + json_string(key) + ":";
    if (random.one_in(2)) {
      call.sent += random.white_space() + wild_json_string(random, value);
      call.expected += json_string(value);
    } else {
      const std::string literal(random.literal());
      call.sent += random.white_space() + literal;
      call.expected += literal;
    }
    call.sent += random.white_space();
  }
  call.sent += "}";
  call.expected += "}";
  return call;
}

struct SentMessage {
  std::string reasoning;
  std::string content;
  std::vector<SentCall> calls;
};

Message message_of(Role role, std::string content) {
  Message message;
  message.role = role;
  message.content = {{.text = std::move(content), .image = {}}};
  return message;
}

Message assistant_message(const SentMessage& sent) {
  Message message = message_of(Role::kAssistant, sent.content);
  message.reasoning = sent.reasoning;
  for (std::size_t i = 0; i < sent.calls.size(); ++i) {
    message.calls.push_back({.id = fmt::format("call_{}", i),
                             .name = sent.calls[i].name,
                             .arguments = arguments_from_text(sent.calls[i].sent)});
  }
  return message;
}

// The ids that a model would have had to generate for `sent`, after the prompt that asks for them.
std::vector<TokenId> reply_ids(const PromptEncoder& encoder, Conversation& conversation,
                               const SentMessage& sent) {
  const std::vector<TokenId> asked = encoder.encode(build_prompt(conversation)).ids;
  conversation.messages.push_back(assistant_message(sent));
  const std::vector<TokenId> whole = encoder.encode(build_prompt(conversation, GenerationPrompt::kNone)).ids;
  EXPECT_TRUE(whole.size() > asked.size() && std::equal(asked.begin(), asked.end(), whole.begin()))
      << "the history does not begin with the prompt that led to it: no cache could ever be reused";
  return {whole.begin() + static_cast<std::ptrdiff_t>(asked.size()), whole.end()};
}

void push_in_groups(Random& random, ReplyParser& parser, std::span<const TokenId> ids,
                    std::vector<ReplyDelta>& deltas) {
  while (!ids.empty()) {
    const std::size_t count = std::min(ids.size(), 1 + random.below(6));
    parser.push(ids.first(count), deltas);
    ids = ids.subspan(count);
  }
}

struct Streamed {
  std::string reasoning;
  std::string content;
  std::vector<std::string> arguments;
};

Streamed join(const std::vector<ReplyDelta>& deltas) {
  Streamed streamed;
  for (const ReplyDelta& delta : deltas) {
    switch (delta.kind) {
      case ReplyDelta::Kind::kReasoning:
        streamed.reasoning += delta.text;
        break;
      case ReplyDelta::Kind::kContent:
        streamed.content += delta.text;
        break;
      case ReplyDelta::Kind::kCallStart:
        streamed.arguments.emplace_back();
        break;
      case ReplyDelta::Kind::kCallArguments:
        streamed.arguments.at(delta.call) += delta.text;
        break;
    }
  }
  return streamed;
}

void expect_same(const SentMessage& sent, const ReplyMessage& reply, const std::vector<ReplyDelta>& deltas) {
  EXPECT_EQ(reply.reasoning.value_or(""), sent.reasoning);
  EXPECT_EQ(reply.reasoning.has_value(), !sent.reasoning.empty());
  EXPECT_EQ(reply.content.value_or(""), sent.content);
  EXPECT_EQ(reply.content.has_value(), !sent.content.empty() || sent.calls.empty());
  EXPECT_EQ(reply.finish, sent.calls.empty() ? FinishReason::kStop : FinishReason::kToolCalls);
  ASSERT_EQ(reply.calls.size(), sent.calls.size());
  const Streamed streamed = join(deltas);
  EXPECT_EQ(streamed.reasoning, sent.reasoning);
  EXPECT_EQ(streamed.content, sent.content);
  ASSERT_EQ(streamed.arguments.size(), sent.calls.size());
  for (std::size_t i = 0; i < sent.calls.size(); ++i) {
    EXPECT_EQ(reply.calls[i].name, sent.calls[i].name);
    EXPECT_EQ(reply.calls[i].arguments, sent.calls[i].expected) << "sent: " << sent.calls[i].sent;
    EXPECT_EQ(streamed.arguments[i], sent.calls[i].expected);
  }
}

void check_conversation(const Tokenizer& tokenizer, const PromptEncoder& encoder, std::uint64_t seed) {
  SCOPED_TRACE(fmt::format("seed {}", seed));
  Random random(seed);
  Conversation conversation;
  conversation.thinking = !random.one_in(4);
  conversation.messages.push_back(message_of(Role::kUser, random.text(6)));
  SentMessage sent;
  if (conversation.thinking) sent.reasoning = random.text(6);
  sent.content = random.text(6);
  for (std::size_t i = random.below(3); i > 0; --i) sent.calls.push_back(random_call(random));

  const std::vector<TokenId> ids = reply_ids(encoder, conversation, sent);
  ReplyOptions options;
  options.start = conversation.thinking ? Channel::kThink : Channel::kResponse;
  ReplyParser parser(tokenizer, options);
  std::vector<ReplyDelta> deltas;
  push_in_groups(random, parser, ids, deltas);
  EXPECT_TRUE(parser.done());
  const ReplyMessage reply = parser.finish(EndedBy::kStop, deltas);
  expect_same(sent, reply, deltas);
  EXPECT_EQ(reply.notes, std::vector<std::string>{});
}

void check_conversations(const Tokenizer& tokenizer, std::uint64_t first_seed, std::uint64_t count) {
  const PromptEncoder encoder(tokenizer);
  for (std::uint64_t seed = first_seed; seed < first_seed + count && !::testing::Test::HasFailure(); ++seed) {
    check_conversation(tokenizer, encoder, seed);
  }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kConversations = 5'000;  // sanitizers are slow and look for other faults
#else
constexpr std::uint64_t kConversations = 100'000;
#endif

TEST(RoundTrip, EveryAssistantMessageComesBackFromItsIds) {
  check_conversations(test::nano_tokenizer(), 1, kConversations);
}

TEST(RoundTrip, AlsoWithTheReleasedVocabulary) {
  const Tokenizer* tokenizer = test::k3_tokenizer();
  if (tokenizer == nullptr) GTEST_SKIP() << "the released vocabulary is not here";
  check_conversations(*tokenizer, 1'000'001, kConversations / 10);
}

}  // namespace
}  // namespace perigee
