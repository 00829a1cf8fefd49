#include "text/tokenizer.h"

#include <algorithm>
#include <thread>

#include "text/bpe.h"
#include "text/chunking.h"
#include "text/pretokenizer.h"
#include "text/special_search.h"
#include "text/utf8.h"

namespace perigee {

struct Tokenizer::Merges {
  explicit Merges(const Vocabulary& vocabulary)
      : table(vocabulary.ordinary_tokens()), specials(vocabulary.specials()) {}
  MergeTable table;
  SpecialSearch specials;
};

namespace {

// One encode call: the pieces of a text, merged.
class PieceEncoder {
 public:
  PieceEncoder(const TokenBytes& tokens, const MergeTable& table, std::vector<TokenId>& ids)
      : tokens_(tokens), merger_(table), ids_(ids) {}

  // `slice` is all that the piece pattern sees.
  void encode(std::string_view slice) {
    for (std::size_t begin = 0; begin < slice.size();) {
      const std::size_t end = piece_end(slice, begin);
      encode_piece(slice.substr(begin, end - begin));
      begin = end;
    }
  }

 private:
  void encode_piece(std::string_view piece) {
    const TokenId whole = tokens_.find(piece);
    if (whole != kNoToken) {
      ids_.push_back(whole);
      return;
    }
    const std::vector<TokenId>& parts = merger_.merge(piece);
    ids_.insert(ids_.end(), parts.begin(), parts.end());
  }

  const TokenBytes& tokens_;
  Merger merger_;
  std::vector<TokenId>& ids_;
};

}  // namespace

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
  PieceEncoder encoder(vocabulary_->ordinary_tokens(), merges_->table, ids);
  for (Chunker chunks(text); !chunks.done();) encoder.encode(chunks.next());
}

void Tokenizer::append_markup(std::string_view text, std::vector<TokenId>& ids) const {
  PieceEncoder encoder(vocabulary_->ordinary_tokens(), merges_->table, ids);
  for (Chunker chunks(text); !chunks.done();) {
    std::string_view rest = chunks.next();
    while (const std::optional<SpecialSearch::Found> found = merges_->specials.find(rest)) {
      encoder.encode(rest.substr(0, found->begin));
      ids.push_back(found->id);
      rest.remove_prefix(found->end);
    }
    encoder.encode(rest);
  }
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
  const std::size_t workers_wanted = std::max(threads, 1U);
  std::vector<std::string_view> chunks;
  for (Chunker chunker(text); !chunker.done();) chunks.push_back(chunker.next());
  const std::size_t share = (chunks.size() + workers_wanted - 1) / workers_wanted;
  std::vector<std::vector<TokenId>> ids(workers_wanted);
  std::vector<std::jthread> workers;
  for (std::size_t worker = 0; worker < workers_wanted; ++worker)
    workers.emplace_back([&, worker] {
      PieceEncoder encoder(vocabulary_->ordinary_tokens(), merges_->table, ids[worker]);
      const std::size_t end = std::min((worker + 1) * share, chunks.size());
      for (std::size_t i = worker * share; i < end; ++i) encoder.encode(chunks[i]);
    });
  workers.clear();
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
