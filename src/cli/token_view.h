// Tokens and prompts for the eye: which bytes a token has, where one ends, what is markup and what only
// spells it. Control characters of the text never reach the terminal.
#pragma once

#include <CLI/CLI.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "cli/byte_streams.h"
#include "text/vocabulary.h"

namespace perigee {

enum class ColourChoice { kAuto, kAlways, kNever };

// --color auto|always|never; auto: if standard output is a terminal.
void add_colour_option(CLI::App& command, ColourChoice& choice);
bool use_colours(ColourChoice choice);

// On one line, nothing hidden: · for a blank, ↵ for a line break, → for a tab, \x1b for a control character
// or a byte that is no UTF-8.
std::string visible_text(std::string_view bytes);

// As it is, line breaks included, but for control characters and bytes that are no UTF-8, which become \x1b.
std::string harmless_text(std::string_view bytes);

// Columns that UTF-8 text without control characters takes: two for wide characters, none for combining ones.
std::size_t display_columns(std::string_view text);

// Width of the terminal on standard output; 100 if it is none.
std::size_t output_columns();

// Prints tokens in rows of at most `columns`, each with its id beneath it; a row ends behind a line break.
// With colours, neighbours differ by their background and special tokens stand out; without, | parts them.
void print_tokens(std::span<const TokenId> ids, const Vocabulary& vocabulary, bool colours,
                  std::size_t columns, OutputBuffer& out);

// Markup in a colour of its own, if `colours`.
std::string markup_text(std::string_view text, bool colours);

}  // namespace perigee
