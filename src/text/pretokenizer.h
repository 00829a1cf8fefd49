// K3's pre-tokenizer: the eight alternatives of its pattern as a hand-written scanner over code points
// (docs/chat-format.md, "Pieces"). A piece is what BPE works on; no token spans two pieces. No regular
// expression engine: worst cases are linear.
#pragma once

#include <cstddef>
#include <string_view>

namespace perigee {

// End of the piece that begins at text[begin], begin < text.size(); the end of `text` is what the pattern's
// look-ahead sees as the end of everything. An invalid byte counts as one character that is neither letter,
// mark, number nor white space, so that any bytes can be encoded and come back unchanged.
std::size_t piece_end(std::string_view text, std::size_t begin);

}  // namespace perigee
