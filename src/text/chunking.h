// The cutting of long text before anything else looks at it. It is part of the format, because it changes ids
// and breaks special tokens that lie across a cut (docs/chat-format.md, "Chunking").
#pragma once

#include <cstddef>
#include <string_view>

namespace perigee {

// A slice ends after so many characters, and inside a slice a chunk ends before a run of white space, or of
// anything else, would exceed its limit. An invalid byte counts as one character.
inline constexpr std::size_t kMaxSliceCharacters = 400'000;
inline constexpr std::size_t kMaxRunCharacters = 25'000;

// Hands out the chunks of a text in order.
class Chunker {
 public:
  explicit Chunker(std::string_view text) : rest_(text) {}

  bool done() const { return rest_.empty(); }
  std::string_view next();

 private:
  // The characters before the current place that are all white space, or all not.
  struct Run {
    bool is_space = false;
    std::size_t length = 0;
    void skip_ascii(std::string_view ascii);
  };

  std::string_view rest_;
  std::size_t slice_characters_ = 0;  // of the current slice, handed out already
};

}  // namespace perigee
