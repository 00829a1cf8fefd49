// Compares the text room with a folder of expected values: text to ids, conversations to prompts, tools and
// calls, replies whole and in increments. The folder's files and their fields are described in
// docs/chat-format.md; a file that is missing is reported as not there, never as passed.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace perigee {

struct ParityDifference {
  std::string which;     // name of the case
  std::string expected;  // around the first difference
  std::string found;
};

struct ParityRow {
  std::string what;  // e.g. "prompts: ids"
  std::size_t cases = 0;
  std::size_t equal = 0;
  std::optional<ParityDifference> first;  // the first case that differs
};

struct TextParity {
  std::vector<ParityRow> rows;
  std::vector<std::string> missing;  // files that the folder does not have
  // Most of the folder's ids do not decode to their texts: they belong to another vocabulary, and the rows of
  // ids say nothing about the code.
  bool other_vocabulary = false;
  bool equal() const;  // at least one case, and all equal
};

// `folder` holds tokenizer.json, prompts.json and chat/*.json, or any of them. Their ids belong to one
// vocabulary, `tokenizer`'s. kNotFound if there is none of the files, kCorrupt if one is malformed.
TextParity check_text_parity(const std::filesystem::path& folder, const Tokenizer& tokenizer);

}  // namespace perigee
