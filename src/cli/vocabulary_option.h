// --vocab, which every command about text has, and where a vocabulary is looked for without it.
#pragma once

#include <CLI/CLI.hpp>

#include <filesystem>

#include "text/tokenizer.h"

namespace perigee {

void add_vocabulary_option(CLI::App& command, std::filesystem::path& given);

// The vocabulary at `given`: a tiktoken file or a folder that holds tiktoken.model. If `given` is empty:
// models/nano in the current folder, else in a folder above the program's own, else in share/perigee there.
// kNotFound if there is none.
std::filesystem::path find_vocabulary(const std::filesystem::path& given);
Tokenizer load_tokenizer(const std::filesystem::path& given);

}  // namespace perigee
