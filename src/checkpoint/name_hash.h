// Hash for tables whose keys come from a file. Seeded afresh for every table, so that nobody can write a file
// whose names all collide and make its parser quadratic. Not stable between runs: never store it.
#pragma once

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <string_view>

namespace perigee {

class NameHash {
 public:
  NameHash() : seed_(std::uint64_t{std::random_device{}()} << 32 | std::random_device{}()) {}
  std::size_t operator()(std::string_view name) const {
    return XXH3_64bits_withSeed(name.data(), name.size(), seed_);
  }

 private:
  std::uint64_t seed_;
};

}  // namespace perigee
