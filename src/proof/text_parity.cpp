#include "proof/text_parity.h"

#include <algorithm>

#include "base/error.h"
#include "proof/golden_file.h"
#include "proof/parity_suites.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

struct Suite {
  const char* file;
  void (*check)(const Golden& file, const Tokenizer& tokenizer, ParityRows& rows);
};

constexpr Suite kSuites[] = {{"tokenizer.json", check_tokenizer},
                             {"prompts.json", check_prompts},
                             {"chat/tool_codec.json", check_tools},
                             {"chat/reply_parser.json", check_replies},
                             {"chat/reply_stream.json", check_streams}};

// Decoding looks ids up and does nothing else, so a list that does not decode to its text was made with other
// tokens.
struct VocabularyEvidence {
  std::size_t lists = 0;
  std::size_t fitting = 0;

  void look_at(const Golden& file, const Tokenizer& tokenizer) {
    for (const Golden& golden : file.objects_with_ids()) {
      ++lists;
      if (tokenizer.decode(golden.ids("ids")) == golden.text("text")) ++fitting;
    }
  }
};

}  // namespace

bool TextParity::equal() const {
  const auto all_equal = [](const ParityRow& row) { return row.equal == row.cases; };
  const auto has_cases = [](const ParityRow& row) { return row.cases > 0; };
  return std::ranges::all_of(rows, all_equal) && std::ranges::any_of(rows, has_cases);
}

TextParity check_text_parity(const fs::path& folder, const Tokenizer& tokenizer) {
  TextParity parity;
  VocabularyEvidence evidence;
  for (const Suite& suite : kSuites) {
    const fs::path path = folder / suite.file;
    if (!fs::exists(path)) {
      parity.missing.emplace_back(suite.file);
      continue;
    }
    const GoldenFile file = GoldenFile::read(path);
    evidence.look_at(file.root(), tokenizer);
    suite.check(file.root(), tokenizer, parity.rows);
  }
  if (parity.missing.size() == std::size(kSuites)) {
    fail(ErrorCode::kNotFound, "{} has no expected values: none of {} is there", folder.string(),
         fmt::join(parity.missing, ", "));
  }
  parity.other_vocabulary = evidence.fitting * 2 < evidence.lists;
  return parity;
}

}  // namespace perigee
