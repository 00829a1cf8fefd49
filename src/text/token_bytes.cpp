#include "text/token_bytes.h"

#include <algorithm>
#include <cstring>

namespace perigee {
namespace {

constexpr std::size_t kFirstSlots = 1024;

std::uint64_t load(const char* bytes, std::size_t count) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes, count);
  return value;
}

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

std::uint64_t hash_of(std::string_view bytes) {
  constexpr std::uint64_t kOdd1 = 0x9E3779B97F4A7C15, kOdd2 = 0xD1B54A32D192ED03;
  std::uint64_t hash = bytes.size() * kOdd1;
  const char* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left > 8; left -= 8, at += 8) hash = mix(hash ^ load(at, 8), kOdd2);
  return mix(hash ^ load(at, left), kOdd1);
}

}  // namespace

std::size_t TokenBytes::slot_of(std::string_view bytes, std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  const auto tag = static_cast<std::uint32_t>(hash >> 32);
  std::size_t slot = hash & mask;
  while (slots_[slot].id != kNoToken && (slots_[slot].tag != tag || (*this)[slots_[slot].id] != bytes))
    slot = (slot + 1) & mask;
  return slot;
}

TokenId TokenBytes::find(std::string_view bytes) const {
  if (bytes.empty() || bytes.size() > longest_) return kNoToken;
  return slots_[slot_of(bytes, hash_of(bytes))].id;
}

bool TokenBytes::add(std::string_view bytes) {
  if (2 * (size() + 1) > slots_.size()) grow();
  const std::uint64_t hash = hash_of(bytes);
  Slot& slot = slots_[slot_of(bytes, hash)];
  if (slot.id != kNoToken) return false;
  slot = {static_cast<std::uint32_t>(hash >> 32), static_cast<TokenId>(size())};
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  begins_.push_back(static_cast<std::uint32_t>(bytes_.size()));
  longest_ = std::max(longest_, bytes.size());
  return true;
}

void TokenBytes::grow() {
  slots_.assign(std::max(kFirstSlots, 2 * slots_.size()), Slot{});
  for (std::size_t id = 0; id < size(); ++id) {
    const std::string_view bytes = (*this)[static_cast<TokenId>(id)];
    const std::uint64_t hash = hash_of(bytes);
    slots_[slot_of(bytes, hash)] = {static_cast<std::uint32_t>(hash >> 32), static_cast<TokenId>(id)};
  }
}

}  // namespace perigee
