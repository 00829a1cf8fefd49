#include "text/tokenizer.h"

#include <algorithm>
#include <atomic>
#include <future>

#include "text/bpe.h"
#include "text/chunking.h"
#include "text/merge_rules.h"
#include "text/parallel_split.h"
#include "text/piece_cache.h"
#include "text/pretokenizer.h"
#include "text/special_search.h"
#include "text/utf8.h"

namespace perigee {

struct Tokenizer::Merges {
  explicit Merges(const Vocabulary& vocabulary)
      : tokens(vocabulary.ordinary_tokens()),
        rules(MergeRules::find(tokens)),
        specials(vocabulary.specials()) {
    if (!rules) table.emplace(tokens);
  }

  const TokenBytes& tokens;
  std::optional<MergeRules> rules;
  std::optional<MergeTable> table;  // for a vocabulary without rules
  SpecialSearch specials;
};

// The working memory of one encode call, or of one thread of it.
class Tokenizer::Encoder {
 public:
  Encoder(const Merges& merges, std::size_t text_bytes) : merges_(merges) {
    const bool is_long = text_bytes >= PieceCache::kWorthwhileBytes;
    if (is_long) cache_.emplace();
    if (merges.rules) cutter_.emplace(*merges.rules);
    if (cutter_ && is_long) cutter_->remember();
    if (merges.table) merger_.emplace(*merges.table);
  }

  // Both append to `ids`. `slice` is all that the piece pattern sees.
  void plain(std::string_view slice, std::vector<TokenId>& ids) {
    for (std::size_t begin = 0; begin < slice.size();) {
      const std::size_t end = piece_end(slice, begin);
      piece(slice.substr(begin, end - begin), ids);
      begin = end;
    }
  }

  void markup(std::string_view slice, std::vector<TokenId>& ids) {
    while (const std::optional<SpecialSearch::Found> found = merges_.specials.find(slice)) {
      plain(slice.substr(0, found->begin), ids);
      ids.push_back(found->id);
      slice.remove_prefix(found->end);
    }
    plain(slice, ids);
  }

 private:
  void piece(std::string_view bytes, std::vector<TokenId>& ids) {
    if (!cache_ || bytes.size() > ShortKey::kMaxBytes) return encode(bytes, ids);
    const ShortKey key = short_key(bytes);
    const std::span<const TokenId> known = cache_->find(key);
    if (known.empty()) {
      const std::size_t first = ids.size();
      encode(bytes, ids);
      cache_->put(key, std::span(ids).subspan(first));
    } else {
      for (const TokenId id : known) ids.push_back(id);
    }
  }

  void encode(std::string_view bytes, std::vector<TokenId>& ids) {
    if (cutter_) return cutter_->append(bytes, ids);
    // A piece that is a token is that token, even one that no merges would make.
    const TokenId whole = merges_.tokens.find(bytes);
    if (whole != kNoToken) return ids.push_back(whole);
    const std::vector<TokenId>& parts = merger_->merge(bytes);
    ids.insert(ids.end(), parts.begin(), parts.end());
  }

  const Merges& merges_;
  std::optional<PieceCutter> cutter_;
  std::optional<Merger> merger_;
  std::optional<PieceCache> cache_;
};

Tokenizer::Tokenizer(Vocabulary vocabulary)
    : vocabulary_(std::make_unique<const Vocabulary>(std::move(vocabulary))),
      merges_(std::make_unique<const Merges>(*vocabulary_)) {}

Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

const Vocabulary& Tokenizer::vocabulary() const {
  return *vocabulary_;
}

void Tokenizer::append_plain(std::string_view text, std::vector<TokenId>& ids) const {
  Encoder encoder(*merges_, text.size());
  for (Chunker chunks(text); !chunks.done();) encoder.plain(chunks.next(), ids);
}

void Tokenizer::append_markup(std::string_view text, std::vector<TokenId>& ids) const {
  Encoder encoder(*merges_, text.size());
  for (Chunker chunks(text); !chunks.done();) encoder.markup(chunks.next(), ids);
}

std::vector<TokenId> Tokenizer::encode_plain(std::string_view text) const {
  std::vector<TokenId> ids;
  append_plain(text, ids);
  return ids;
}

std::vector<TokenId> Tokenizer::encode_markup(std::string_view text) const {
  std::vector<TokenId> ids;
  append_markup(text, ids);
  return ids;
}

std::vector<TokenId> Tokenizer::encode_plain_parallel(std::string_view text, unsigned threads) const {
  const std::vector<std::string_view> shares = independent_shares(text);
  if (threads < 2 || shares.size() < 2) return encode_plain(text);
  std::vector<std::vector<TokenId>> ids(shares.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    Encoder encoder(*merges_, text.size());
    for (std::size_t share = next++; share < shares.size(); share = next++)
      encoder.plain(shares[share], ids[share]);
  };
  std::vector<std::future<void>> workers(std::min<std::size_t>(threads, shares.size()));
  for (std::future<void>& worker : workers) worker = std::async(std::launch::async, work);
  for (std::future<void>& worker : workers) worker.get();
  std::vector<TokenId> joined;
  for (const std::vector<TokenId>& part : ids) joined.insert(joined.end(), part.begin(), part.end());
  return joined;
}

std::string Tokenizer::decode_bytes(std::span<const TokenId> ids) const {
  std::string bytes;
  for (const TokenId id : ids) bytes += vocabulary_->bytes(id);
  return bytes;
}

std::string Tokenizer::decode(std::span<const TokenId> ids) const {
  return replace_invalid_utf8(decode_bytes(ids));
}

}  // namespace perigee
