#include "text/chunking.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "text/unicode.h"
#include "text/utf8.h"

namespace perigee {
namespace {

constexpr std::uint64_t kHighBits = 0x8080808080808080;

// Length of the ASCII prefix of `text`, rounded down to whole words of eight bytes.
std::size_t ascii_words(std::string_view text) {
  std::size_t length = 0;
  for (; length + sizeof(std::uint64_t) <= text.size(); length += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + length, sizeof word);
    if ((word & kHighBits) != 0) break;
  }
  return length;
}

bool is_ascii_space(char byte) {
  return is_python_space(static_cast<unsigned char>(byte));
}

}  // namespace

// Counts the run that ends where `ascii` more bytes end. They are fewer than would make it too long, so only
// its beginning is looked for, from behind.
void Chunker::Run::skip_ascii(std::string_view ascii) {
  const bool last_is_space = is_ascii_space(ascii.back());
  std::size_t same = 1;
  while (same < ascii.size() && is_ascii_space(ascii[ascii.size() - 1 - same]) == last_is_space) ++same;
  length = same == ascii.size() && last_is_space == is_space ? length + same : same;
  is_space = last_is_space;
}

std::string_view Chunker::next() {
  Run run;
  std::size_t at = 0, characters = slice_characters_;
  slice_characters_ = 0;
  while (at < rest_.size() && characters < kMaxSliceCharacters) {
    const std::size_t room = std::min(kMaxRunCharacters - run.length, kMaxSliceCharacters - characters);
    if (const std::size_t ascii = ascii_words(rest_.substr(at, room)); ascii > 0) {
      run.skip_ascii(rest_.substr(at, ascii));
      at += ascii;
      characters += ascii;
      continue;
    }
    const CodePoint character = decode_utf8(rest_, at);
    const bool is_space = character.valid && is_python_space(character.value);
    run.length = is_space == run.is_space ? run.length + 1 : 1;
    run.is_space = is_space;
    if (run.length > kMaxRunCharacters) {
      slice_characters_ = characters;
      break;
    }
    at += character.valid ? character.bytes : 1;
    ++characters;
  }
  const std::string_view chunk = rest_.substr(0, at);
  rest_.remove_prefix(at);
  return chunk;
}

}  // namespace perigee
