#include "text/token_bytes.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "text/short_key.h"

namespace perigee {
namespace {

constexpr std::size_t kFirstSlots = 1024;
constexpr std::uint64_t kOdd1 = 0x9E3779B97F4A7C15, kOdd2 = 0xD1B54A32D192ED03;

std::uint64_t load(const char* bytes, std::size_t count) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes, count);
  return value;
}

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

}  // namespace

std::uint64_t TokenBytes::hash_of(std::string_view bytes) {
  if (bytes.size() <= ShortKey::kMaxBytes) return short_key(bytes).hash();
  std::uint64_t hash = bytes.size() * kOdd1;
  const char* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left > 8; left -= 8, at += 8) hash = mix(hash ^ load(at, 8), kOdd2);
  return mix(hash ^ load(at, left), kOdd1);
}

TokenBytes::Mark TokenBytes::mark_of(std::string_view bytes, std::uint64_t hash) {
  if (bytes.size() > 7)
    return {static_cast<std::uint32_t>(hash >> 32), static_cast<std::uint32_t>(hash >> 8) & 0xFFFFFF};
  const std::uint64_t value = short_key(bytes).low | static_cast<std::uint64_t>(bytes.size()) << 56;
  return {static_cast<std::uint32_t>(value), static_cast<std::uint32_t>(value >> 32)};
}

std::size_t TokenBytes::slot_of(std::string_view bytes, std::uint64_t hash, Mark mark) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = hash & mask;
  while (slots_[slot].id != kNoToken &&
         (slots_[slot].mark != mark || (!mark.is_whole() && (*this)[slots_[slot].id] != bytes)))
    slot = (slot + 1) & mask;
  return slot;
}

TokenId TokenBytes::find(std::string_view bytes) const {
  if (bytes.empty() || bytes.size() > longest_) return kNoToken;
  const std::uint64_t hash = hash_of(bytes);
  return slots_[slot_of(bytes, hash, mark_of(bytes, hash))].id;
}

bool TokenBytes::add(std::string_view bytes) {
  if (4 * (size() + 1) > 3 * slots_.size()) resize_table(std::max(kFirstSlots, 2 * slots_.size()));
  const std::uint64_t hash = hash_of(bytes);
  const Mark mark = mark_of(bytes, hash);
  Slot& slot = slots_[slot_of(bytes, hash, mark)];
  if (slot.id != kNoToken) return false;
  slot = {mark, static_cast<TokenId>(size())};
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  begins_.push_back(static_cast<std::uint32_t>(bytes_.size()));
  longest_ = std::max(longest_, bytes.size());
  return true;
}

void TokenBytes::reserve(std::size_t tokens) {
  begins_.reserve(tokens + 1);
  const std::size_t slots = std::bit_ceil(tokens + tokens / 3 + 2);
  if (slots > slots_.size()) resize_table(slots);
}

void TokenBytes::resize_table(std::size_t slots) {
  slots_.assign(slots, Slot{});
  for (TokenId id = 0; id < size(); ++id) {
    const std::string_view bytes = (*this)[id];
    const std::uint64_t hash = hash_of(bytes);
    const Mark mark = mark_of(bytes, hash);
    slots_[slot_of(bytes, hash, mark)] = {mark, id};
  }
}

}  // namespace perigee
