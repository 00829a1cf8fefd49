// Regular languages over bytes, as trees: what the words of a grammar are made of. They are built by code
// (json_words.h) or read from a schema's pattern (pattern.h) and run as automata (dfa.h).
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>
#include <vector>

namespace perigee {

struct Regex;
using RegexRef = std::shared_ptr<const Regex>;

inline constexpr std::uint32_t kUnlimited = std::numeric_limits<std::uint32_t>::max();

struct Regex {
  enum class Kind : std::uint8_t {
    kByte,          // one byte of low … high
    kSequence,      // of the parts; none: the empty word
    kAlternatives,  // one of the parts; none: no word at all
    kRepeat,        // of parts[0], least … most times
    kCharacter,     // parts[0], which counts as one character of a string whose length is limited
  };
  Kind kind = Kind::kSequence;
  std::uint8_t low = 0, high = 0;
  std::uint32_t least = 0, most = 0;
  std::vector<RegexRef> parts;
};

RegexRef regex_byte(std::uint8_t low, std::uint8_t high);
RegexRef regex_text(std::string_view text);
RegexRef regex_sequence(std::vector<RegexRef> parts);
RegexRef regex_alternatives(std::vector<RegexRef> parts);
RegexRef regex_repeat(RegexRef part, std::uint32_t least, std::uint32_t most = kUnlimited);
RegexRef regex_character(RegexRef part);

// The UTF-8 of every code point of first … last; surrogates are left out.
RegexRef regex_code_points(char32_t first, char32_t last);

}  // namespace perigee
