#include "support/vocabularies.h"

#include <memory>

#include "support/paths.h"

namespace perigee::test {

const Tokenizer* k3_tokenizer() {
  static const std::unique_ptr<const Tokenizer> tokenizer = [] {
    const std::filesystem::path file = shared_folder() / "k3/tiktoken.model";
    return std::filesystem::exists(file) ? std::make_unique<const Tokenizer>(Vocabulary::load(file))
                                         : nullptr;
  }();
  return tokenizer.get();
}

const Tokenizer& nano_tokenizer() {
  static const Tokenizer tokenizer(
      Vocabulary::load(data_folder().parent_path().parent_path() / "models/nano"));
  return tokenizer;
}

}  // namespace perigee::test
