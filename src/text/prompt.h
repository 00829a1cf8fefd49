// K3 has no chat template: a prompt is a list of segments, each tokenized alone, and one wrong boundary
// changes ids (docs/chat-format.md). Structure and text are different types here, so no text of a user,
// whatever it spells, can become a special id.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/chat_tokens.h"
#include "text/conversation.h"
#include "text/tokenizer.h"

namespace perigee {

enum class Marker { kOpen, kClose, kSep, kEndOfMessage };

// Plain text is never empty; a literal of ours and a copy of the user's text are encoded the same way.
using Segment = std::variant<Marker, ImageSize, std::string>;

// Whether the prompt ends with an opened assistant message. A last message that is partial is left open
// either way.
enum class GenerationPrompt { kOpen, kNone };

// The whole prompt in K3's order: tools, effort, messages, tool choice, response format, opened reply. Tool
// results are put in the order of their calls. kUsage if a tool result's name cannot be found.
std::vector<Segment> build_prompt(const Conversation& conversation,
                                  GenerationPrompt generation = GenerationPrompt::kOpen);

std::string image_words(ImageSize size);  // what the prompt says of an image: "image 640x480"
std::string segment_text(const Segment& segment);
std::string prompt_text(std::span<const Segment> segments);

struct PromptIds {
  struct Image {
    std::size_t pad;  // index in `ids` of its <|media_pad|>, which an engine repeats once per image vector
    ImageSize size;
  };
  std::vector<TokenId> ids;
  std::vector<Image> images;  // in order
};

// Turns segments into ids; nothing else may join them.
class PromptEncoder {
 public:
  explicit PromptEncoder(const Tokenizer& tokenizer);  // keeps a reference
  PromptIds encode(std::span<const Segment> segments) const;

 private:
  TokenId marker_id(Marker marker) const;
  void append_image(ImageSize size, PromptIds& prompt) const;

  const Tokenizer& tokenizer_;
  ChatTokens tokens_;
};

// Ids that a prompt ends with for the channel it opens and that usage counts leave out: <|open|>think<|sep|>.
inline constexpr std::size_t kPendingPromptIds = 3;

}  // namespace perigee
