// Ordinary tokens as bytes, found by id and by bytes. The table that encoding hits for every piece, so it is
// one flat open-addressing table instead of a standard map. Knows neither files nor special tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace perigee {

using TokenId = std::uint32_t;
inline constexpr TokenId kNoToken = 0xFFFFFFFF;

class TokenBytes {
 public:
  // Makes room for this many tokens at once instead of little by little.
  void reserve(std::size_t tokens);

  // Gives `bytes` the next id. False, and nothing added, if they are there already.
  bool add(std::string_view bytes);

  std::size_t size() const { return begins_.size() - 1; }
  std::size_t longest() const { return longest_; }
  std::size_t total_bytes() const { return bytes_.size(); }

  // id < size().
  std::string_view operator[](TokenId id) const {
    return {bytes_.data() + begins_[id], begins_[id + 1] - begins_[id]};
  }

  // The id of exactly these bytes, or kNoToken.
  TokenId find(std::string_view bytes) const;

 private:
  // What is compared first: of a token of up to seven bytes all there is to it, of a longer one a hash.
  struct Mark {
    std::uint32_t low, high;
    bool operator==(const Mark&) const = default;
    bool is_whole() const { return high >> 24 != 0; }
  };
  struct Slot {
    Mark mark{};
    TokenId id = kNoToken;
  };

  static std::uint64_t hash_of(std::string_view bytes);
  static Mark mark_of(std::string_view bytes, std::uint64_t hash);
  std::size_t slot_of(std::string_view bytes, std::uint64_t hash, Mark mark) const;
  void resize_table(std::size_t slots);

  std::vector<char> bytes_;                  // of all tokens, one behind the other
  std::vector<std::uint32_t> begins_ = {0};  // of each token in bytes_, and the end of the last
  std::vector<Slot> slots_;                  // a power of two, at most three quarters of them taken
  std::size_t longest_ = 0;
};

}  // namespace perigee
