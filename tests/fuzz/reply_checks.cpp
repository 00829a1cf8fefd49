// Replies of arbitrary ids. The vocabulary is made here, small and full of the words of tags, so that random
// ids often come close to a well-formed reply.
#include <array>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/small_vocabulary.h"
#include "fuzz/text_checks.h"
#include "text/json_tree.h"
#include "text/reply_run.h"

namespace perigee::fuzz {
namespace {

using test::ReplyRun;

// Tokens of one byte come first, id = byte.
constexpr std::array<std::string_view, 22> kWords = {
    "think",        "response", "tools",    "call",     "argument", "json", "message", " tool=\"",
    " key=\"",      " type=\"", "string",   "number",   "object",   "f\"",  "&quot;",  "{\"a\": 1}",
    " index=\"1\"", "true",     "\xF0\x9F", "\xA5\xA0", "stop",     "\" "};

// An id is its input modulo the size of the vocabulary and two more, which do not exist.
constexpr TokenId kUnknownIds = 2;
constexpr std::size_t kMaxIds = 4096;

const Tokenizer& small_tokenizer() {
  static const Tokenizer tokenizer(small_vocabulary_with(kWords));
  return tokenizer;
}

std::vector<TokenId> ids_of(std::span<const std::uint8_t> input) {
  const auto ids = static_cast<TokenId>(small_tokenizer().vocabulary().size()) + kUnknownIds;
  std::vector<TokenId> out;
  for (std::size_t i = 0; i + 1 < input.size() && out.size() < kMaxIds; i += 2)
    out.push_back((input[i] | static_cast<TokenId>(input[i + 1]) << 8) % ids);
  return out;
}

// Ends the process in every kind of build, so that libFuzzer keeps the input.
void must_hold(bool condition) {
  if (!condition) std::abort();
}

// A raw block goes through as it is, so only replies that cannot have one are judged.
void check_arguments(const ReplyRun& run, const std::string& text) {
  if (text.find("json") != std::string::npos) return;
  for (const ReplyCall& call : run.message.calls) must_hold(is_json_value(call.arguments));
}

void check_message(const ReplyMessage& message) {
  must_hold(is_valid_utf8(message.reasoning.value_or("")) && is_valid_utf8(message.content.value_or("")));
  for (const ReplyCall& call : message.calls) must_hold(is_valid_utf8(call.arguments) && !call.name.empty());
}

// Groups that depend on the ids alone: 0 to 7 at a time.
std::vector<std::size_t> groups_of(std::span<const TokenId> ids) {
  std::vector<std::size_t> groups;
  std::size_t mix = ids.size();
  for (const TokenId id : ids) {
    mix = mix * 31 + id;
    groups.push_back(mix >> 3 & 7);
  }
  return groups;
}

void check_groups(const ReplyOptions& options, EndedBy ended_by, std::span<const TokenId> ids) {
  const ReplyRun whole = test::run_reply(small_tokenizer(), options, ended_by, ids);
  must_hold(whole.fault.empty());
  check_message(whole.message);
  check_arguments(whole, small_tokenizer().decode_bytes(ids));
  must_hold(options.tools_allowed || whole.calls.empty());
  for (const auto& groups : {test::one_by_one(ids.size()), groups_of(ids)}) {
    const ReplyRun run = test::run_reply(small_tokenizer(), options, ended_by, ids, groups);
    must_hold(run.fault.empty());
    must_hold(test::difference(whole, run).empty());
  }
}

// Whatever stands in a prompt, the channel that it opens last is the open one.
void check_open_channel(std::vector<TokenId> prompt) {
  small_tokenizer().append_markup("<|open|>think<|sep|>", prompt);
  must_hold(open_channel(prompt, small_tokenizer()) == Channel::kThink);
}

}  // namespace

void check_reply(std::span<const std::uint8_t> input) {
  const std::vector<TokenId> ids = ids_of(input);
  for (const Channel start : {Channel::kThink, Channel::kResponse, Channel::kIdle}) {
    for (const EndedBy ended_by : {EndedBy::kStop, EndedBy::kMaxTokens}) {
      check_groups({.start = start, .tools_allowed = true, .calls_so_far = 0, .stop = {}}, ended_by, ids);
      check_groups(
          {.start = start, .tools_allowed = false, .calls_so_far = 3, .stop = {"stop", "topf", "\n"}},
          ended_by, ids);
    }
  }
  check_open_channel(ids);
}

}  // namespace perigee::fuzz
