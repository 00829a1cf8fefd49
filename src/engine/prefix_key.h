// Names for prefixes: a hash of everything that led to a state. The names of all prefixes of a prompt cost
// one pass, so a snapshot of any length is found at once. They only say where to look: a snapshot itself
// holds the ids and is compared with them (snapshot.h).
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace perigee {

struct PrefixKey {
  std::size_t length = 0;  // ids
  std::uint64_t hash = 0;
  auto operator<=>(const PrefixKey&) const = default;
};

class PrefixKeys {
 public:
  // Of the first `ids` … 0 of them, with the images among them.
  PrefixKeys(const std::string& model_fingerprint, std::span<const std::uint32_t> ids,
             std::span<const PromptEmbedding> embeddings);

  PrefixKey of(std::size_t length) const { return {length, hashes_[length]}; }
  std::size_t longest() const { return hashes_.size() - 1; }

 private:
  std::vector<std::uint64_t> hashes_;  // by length
};

// What a snapshot of the first `length` ids is bound to beside them: the model, and images before that
// length.
std::string prefix_fingerprint(const std::string& model_fingerprint,
                               std::span<const PromptEmbedding> embeddings, std::size_t length);

}  // namespace perigee
