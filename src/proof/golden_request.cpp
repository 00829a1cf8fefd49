#include "proof/golden_request.h"

#include <charconv>
#include <string_view>

#include "base/error.h"
#include "text/conversation_json.h"

namespace perigee {
namespace {

constexpr std::string_view kBeforeSize = "<|media_begin|>image ";
constexpr std::string_view kAfterSize = "<|media_content|><|media_pad|><|media_end|>";

// Takes a number off the front of `text`; false if there is none above zero.
bool take_number(std::string_view& text, std::uint32_t& number) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(parsed.ptr - text.data()));
  return number > 0;
}

ImageSize stated_size(const std::string& prompt) {
  std::string_view rest = prompt;
  ImageSize size;
  bool good = rest.starts_with(kBeforeSize);
  if (good) {
    rest.remove_prefix(kBeforeSize.size());
    good = take_number(rest, size.width) && rest.starts_with('x');
  }
  if (good) {
    rest.remove_prefix(1);
    good = take_number(rest, size.height) && rest == kAfterSize;
  }
  if (!good) {
    fail(ErrorCode::kCorrupt, "\"image_prompts\" must hold texts like {}640x480{}, not \"{}\"", kBeforeSize,
         kAfterSize, prompt);
  }
  return size;
}

}  // namespace

std::vector<ImageSize> stated_image_sizes(const JsonNode& request) {
  std::vector<ImageSize> sizes;
  if (const JsonNode* prompts = request.find("image_prompts"); prompts != nullptr) {
    for (const JsonNode& prompt : prompts->items) sizes.push_back(stated_size(prompt.text));
  }
  return sizes;
}

std::vector<Segment> render_golden(const JsonNode& request, GenerationPrompt generation) {
  const std::vector<ImageSize> sizes = stated_image_sizes(request);
  std::size_t next = 0;
  ConversationRules rules;
  rules.lenient = true;
  rules.default_effort.reset();
  rules.image_size = [&](const std::string&, const JsonNode&, const std::string& param) {
    if (next == sizes.size()) throw RequestError(param, "the request states no size for this image");
    return sizes[next++];
  };
  return build_prompt(read_conversation(request, rules), generation);
}

std::vector<Segment> render_golden(const std::string& request, GenerationPrompt generation) {
  const JsonTree tree = JsonTree::parse(request, "request");
  return render_golden(tree.root(), generation);
}

}  // namespace perigee
