// Segments to ids: structure by the ids of its tokens, everything else by the way in that has no special ids.
#include "text/prompt.h"

namespace perigee {

PromptEncoder::PromptEncoder(const Tokenizer& tokenizer)
    : tokenizer_(tokenizer), tokens_(find_chat_tokens(tokenizer.vocabulary())) {}

TokenId PromptEncoder::marker_id(Marker marker) const {
  switch (marker) {
    case Marker::kOpen:
      return tokens_.open;
    case Marker::kClose:
      return tokens_.close;
    case Marker::kSep:
      return tokens_.sep;
    case Marker::kEndOfMessage:
      return tokens_.end_of_message;
  }
  return tokens_.end_of_message;
}

void PromptEncoder::append_image(ImageSize size, PromptIds& prompt) const {
  prompt.ids.push_back(tokens_.media_begin);
  tokenizer_.append_plain(image_words(size), prompt.ids);
  prompt.ids.push_back(tokens_.media_content);
  prompt.images.push_back({.pad = prompt.ids.size(), .size = size});
  prompt.ids.push_back(tokens_.media_pad);
  prompt.ids.push_back(tokens_.media_end);
}

PromptIds PromptEncoder::encode(std::span<const Segment> segments) const {
  PromptIds prompt;
  for (const Segment& segment : segments) {
    if (const auto* marker = std::get_if<Marker>(&segment)) {
      prompt.ids.push_back(marker_id(*marker));
    } else if (const auto* size = std::get_if<ImageSize>(&segment)) {
      append_image(*size, prompt);
    } else {
      tokenizer_.append_plain(std::get<std::string>(segment), prompt.ids);
    }
  }
  return prompt;
}

}  // namespace perigee
