#include "cli/vocabulary_option.h"

#include <system_error>

#include "base/error.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDefaultModel = "models/nano";

bool has_vocabulary(const fs::path& folder) {
  std::error_code ignored;  // a folder that cannot be looked into has none
  return fs::is_regular_file(folder / "tiktoken.model", ignored);
}

fs::path find_default() {
  if (has_vocabulary(kDefaultModel)) return kDefaultModel;
  std::error_code unknown;
  fs::path folder = fs::read_symlink("/proc/self/exe", unknown).parent_path();
  for (; !folder.empty(); folder = folder.parent_path()) {
    for (const fs::path& candidate : {folder / kDefaultModel, folder / "share/perigee" / kDefaultModel}) {
      if (has_vocabulary(candidate)) return candidate;
    }
    if (folder == folder.parent_path()) break;  // the root
  }
  fail(
      ErrorCode::kNotFound,
      "no vocabulary: {} is neither in this folder nor in one above the program; give a tiktoken file or the "
      "folder of a checkpoint with --vocab",
      kDefaultModel);
}

}  // namespace

void add_vocabulary_option(CLI::App& command, fs::path& given) {
  command
      .add_option(
          "--vocab", given,
          "Vocabulary: a tiktoken file, or a checkpoint's folder that has tiktoken.model [models/nano, in "
          "this folder or in one above the program]")
      ->type_name("PATH");
}

fs::path find_vocabulary(const fs::path& given) {
  return given.empty() ? find_default() : given;
}

Tokenizer load_tokenizer(const fs::path& given) {
  return Tokenizer(Vocabulary::load(find_vocabulary(given)));
}

}  // namespace perigee
