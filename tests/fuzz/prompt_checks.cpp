#include <cstdlib>
#include <string>

#include "fuzz/small_vocabulary.h"
#include "fuzz/text_checks.h"
#include "text/conversation_json.h"
#include "text/prompt.h"
#include "text/utf8.h"

namespace perigee::fuzz {
namespace {

// Ends the process in every kind of build, so that libFuzzer keeps the input.
void must_hold(bool condition) {
  if (!condition) std::abort();
}

ConversationRules rules_of(bool lenient) {
  ConversationRules rules;
  rules.lenient = lenient;
  rules.image_size = [](const std::string& url, const JsonNode&, const std::string& param) {
    if (url.size() > 100) throw RequestError(param, param + " is too long");
    return ImageSize{static_cast<std::uint32_t>(url.size()), 7};
  };
  return rules;
}

// What a segment must become: text byte by byte, markers and images as special tokens.
void append_expected(const Segment& segment, std::vector<TokenId>& ids) {
  const std::string text = segment_text(segment);
  must_hold(!text.empty());
  if (std::holds_alternative<std::string>(segment)) {
    for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
  } else {
    byte_tokenizer().append_markup(text, ids);
  }
}

void check_conversation(const Conversation& conversation) {
  static const PromptEncoder encoder(byte_tokenizer());
  const std::vector<Segment> segments = build_prompt(conversation);
  const PromptIds prompt = encoder.encode(segments);
  must_hold(is_valid_utf8(prompt_text(segments)));
  must_hold(byte_tokenizer().decode_bytes(prompt.ids) == prompt_text(segments));
  std::vector<TokenId> expected;
  for (const Segment& segment : segments) append_expected(segment, expected);
  must_hold(prompt.ids == expected);
}

void check_request(const JsonNode& request, bool lenient) {
  Conversation conversation;
  try {
    conversation = read_conversation(request, rules_of(lenient));
  } catch (const RequestError& error) {
    must_hold(!error.param().empty() && is_valid_utf8(error.what()));
    return;
  }
  check_conversation(conversation);
}

}  // namespace

void check_prompt(std::span<const std::uint8_t> input) {
  std::string text(reinterpret_cast<const char*>(input.data()), input.size());
  JsonTree tree;
  try {
    tree = JsonTree::parse(std::move(text), "request");
  } catch (const Error&) {
    return;
  }
  check_request(tree.root(), true);
  check_request(tree.root(), false);
}

}  // namespace perigee::fuzz
