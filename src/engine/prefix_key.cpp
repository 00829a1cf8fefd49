#include "engine/prefix_key.h"

#include <fmt/format.h>

#include "base/hash.h"

namespace perigee {
namespace {

constexpr std::uint64_t kOdd1 = 0x9E3779B97F4A7C15, kOdd2 = 0xD1B54A32D192ED03;

std::uint64_t chained(std::uint64_t hash, std::uint64_t value) {
  const auto product = static_cast<unsigned __int128>(hash ^ kOdd1) * (value * 2 + 1 + kOdd2);
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

std::uint64_t hash_of(const PromptEmbedding& embedding) {
  return xxh3_64(std::as_bytes(std::span(embedding.values)));
}

}  // namespace

PrefixKeys::PrefixKeys(const std::string& model_fingerprint, std::span<const std::uint32_t> ids,
                       std::span<const PromptEmbedding> embeddings) {
  hashes_.reserve(ids.size() + 1);
  hashes_.push_back(xxh3_64(std::as_bytes(std::span(model_fingerprint))));
  auto embedding = embeddings.begin();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::uint64_t hash = chained(hashes_.back(), ids[i]);
    for (; embedding != embeddings.end() && embedding->index == i; ++embedding)
      hash = chained(hash, hash_of(*embedding));
    hashes_.push_back(hash);
  }
}

std::string prefix_fingerprint(const std::string& model_fingerprint,
                               std::span<const PromptEmbedding> embeddings, std::size_t length) {
  Xxh3 hash;
  bool any = false;
  for (const PromptEmbedding& embedding : embeddings) {
    if (embedding.index >= length) break;
    const std::uint64_t parts[] = {embedding.index, hash_of(embedding)};
    hash.update(std::as_bytes(std::span(parts)));
    any = true;
  }
  return any ? fmt::format("{}+{:016x}", model_fingerprint, hash.value()) : model_fingerprint;
}

}  // namespace perigee
