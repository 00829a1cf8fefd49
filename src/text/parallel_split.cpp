#include "text/parallel_split.h"

#include "text/chunking.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace perigee {
namespace {

constexpr std::size_t kShareBytes = 65536;

// Whether every piece that reaches `at` ends there (docs/chat-format.md, "Pieces"): a line break is only ever
// followed, inside its piece, by more white space; a letter or digit never by a space.
bool must_end(std::string_view text, std::size_t at) {
  const char before = text[at - 1];
  if (text[at] == ' ') return (byte_class(before) & (kCharLetter | kCharNumber)) != 0;
  if (before != '\n') return false;
  const CodePoint after = decode_utf8(text, at);
  return after.valid && (char_class(after.value) & kCharSpace) == 0;
}

}  // namespace

std::vector<std::string_view> independent_shares(std::string_view text) {
  std::vector<std::string_view> shares;
  for (Chunker chunker(text); !chunker.done();) {
    std::string_view chunk = chunker.next();
    std::size_t at = kShareBytes;
    for (; at < chunk.size(); ++at) {
      if (!must_end(chunk, at)) continue;
      shares.push_back(chunk.substr(0, at));
      chunk.remove_prefix(at);
      at = kShareBytes;
    }
    shares.push_back(chunk);
  }
  return shares;
}

}  // namespace perigee
