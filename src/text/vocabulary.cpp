#include "text/vocabulary.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/error.h"
#include "base/file.h"
#include "text/json_tree.h"
#include "text/tiktoken_file.h"

namespace perigee {
namespace {

constexpr std::uint64_t kMaxVocabularyBytes = 64ULL << 20;
constexpr std::uint64_t kMaxConfigBytes = 16ULL << 20;
constexpr const char* kConfigName = "tokenizer_config.json";
constexpr const char* kSlotsKey = "added_tokens_decoder";

// The offset that a key of added_tokens_decoder, an id in decimal, stands for.
std::uint32_t slot_offset(const std::string& key, std::size_t ordinary, std::uint32_t slots,
                          const std::string& where) {
  std::uint64_t id = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  if (error != std::errc() || end != key.data() + key.size() || id < ordinary || id >= ordinary + slots)
    fail(ErrorCode::kCorrupt, "{}: {}: the key \"{}\" is not an id of a special slot, {} to {}", where,
         kSlotsKey, key, ordinary, ordinary + slots - 1);
  return static_cast<std::uint32_t>(id - ordinary);
}

SpecialSlots read_slots(const std::filesystem::path& config, std::size_t ordinary) {
  const std::string where = config.string();
  const JsonTree tree = JsonTree::parse(read_small_file(config, kMaxConfigBytes), where);
  const JsonNode* decoder = tree.root().find(kSlotsKey);
  if (decoder == nullptr || !decoder->is(JsonKind::kObject))
    fail(ErrorCode::kCorrupt, "{}: there is no object \"{}\", which names the special tokens", where,
         kSlotsKey);
  SpecialSlots slots{k3_special_slots().slots, {}};
  for (const auto& [key, token] : decoder->members) {
    const JsonNode* content = token.find("content");
    if (content == nullptr || !content->is(JsonKind::kString))
      fail(ErrorCode::kCorrupt, "{}: {}: \"{}\" has no string \"content\"", where, kSlotsKey, key);
    slots.named.push_back({slot_offset(key, ordinary, slots.slots, where), content->text});
  }
  return slots;
}

}  // namespace

Vocabulary Vocabulary::load(const std::filesystem::path& path) {
  const std::filesystem::path file = std::filesystem::is_directory(path) ? path / "tiktoken.model" : path;
  TokenBytes ordinary = parse_tiktoken(read_small_file(file, kMaxVocabularyBytes), file.string());
  const std::filesystem::path config = file.parent_path() / kConfigName;
  if (!std::filesystem::exists(config)) return {std::move(ordinary), k3_special_slots(), file.string()};
  const SpecialSlots slots = read_slots(config, ordinary.size());
  return {std::move(ordinary), slots, config.string()};
}

Vocabulary Vocabulary::parse(std::string_view file_text, const SpecialSlots& specials,
                             const std::string& where) {
  return {parse_tiktoken(file_text, where), specials, where};
}

Vocabulary::Vocabulary(TokenBytes ordinary, const SpecialSlots& slots, const std::string& where)
    : ordinary_(std::move(ordinary)) {
  name_specials(slots, where);
  sort_specials(where);
}

void Vocabulary::name_specials(const SpecialSlots& slots, const std::string& where) {
  specials_.resize(slots.slots);
  for (std::size_t i = 0; i < specials_.size(); ++i)
    specials_[i].id = static_cast<TokenId>(ordinary_count() + i);
  for (const SpecialSlots::Named& named : slots.named) {
    if (named.offset >= specials_.size())
      fail(ErrorCode::kCorrupt, "{}: the special token \"{}\" is at slot {} of only {}", where, named.text,
           named.offset, specials_.size());
    if (named.text.empty())
      fail(ErrorCode::kCorrupt, "{}: special slot {} has an empty text", where, named.offset);
    std::string& text = specials_[named.offset].text;
    if (!text.empty())
      fail(ErrorCode::kCorrupt, "{}: special slot {} has two names, \"{}\" and \"{}\"", where, named.offset,
           text, named.text);
    text = named.text;
  }
  for (SpecialToken& token : specials_)
    if (token.text.empty()) token.text = fmt::format("<|reserved_token_{}|>", token.id);
}

void Vocabulary::sort_specials(const std::string& where) {
  by_text_.resize(specials_.size());
  std::iota(by_text_.begin(), by_text_.end(), 0U);
  const auto text_of = [this](std::uint32_t index) -> std::string_view { return specials_[index].text; };
  std::ranges::sort(by_text_, {}, text_of);
  const auto twice = std::ranges::adjacent_find(by_text_, {}, text_of);
  if (twice != by_text_.end())
    fail(ErrorCode::kCorrupt, "{}: the special token \"{}\" has two ids", where, text_of(*twice));
}

std::size_t Vocabulary::size() const {
  return ordinary_count() + specials_.size();
}

std::size_t Vocabulary::ordinary_count() const {
  return ordinary_.size();
}

std::string_view Vocabulary::bytes(TokenId id) const {
  if (id < ordinary_count()) return ordinary_[id];
  if (is_special(id)) return specials_[id - ordinary_count()].text;
  return {};
}

std::optional<TokenId> Vocabulary::ordinary(std::string_view bytes) const {
  const TokenId id = ordinary_.find(bytes);
  if (id == kNoToken) return std::nullopt;
  return id;
}

std::optional<TokenId> Vocabulary::special(std::string_view text) const {
  const auto text_of = [this](std::uint32_t index) -> std::string_view { return specials_[index].text; };
  const auto found = std::ranges::lower_bound(by_text_, text, {}, text_of);
  if (found == by_text_.end() || text_of(*found) != text) return std::nullopt;
  return specials_[*found].id;
}

std::span<const SpecialToken> Vocabulary::specials() const {
  return specials_;
}

std::size_t Vocabulary::longest_token() const {
  return ordinary_.longest();
}

}  // namespace perigee
