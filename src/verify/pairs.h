// The joint histogram behind the verifier's judgements: for every pair (source scale code, output scale code)
// that occurs, how often which source nibble became which output nibble. A pair decides once which of the 256
// combinations are exact and which a correct rounding could have made.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "verify/module.h"

namespace perigee::verifying {

inline constexpr int kNoCode = -1;

// For every source scale code the output code with exactly the same scale, or kNoCode.
struct ExpectedCodes {
  std::array<std::int16_t, 256> code;
  ExpectedCodes(const ScaleRule& source, const ScaleRule& output);
};

struct CodePair {
  std::uint8_t source_code = 0, output_code = 0;
  std::uint64_t blocks = 0;
  bool same_scale = false;
  std::array<std::uint16_t, 16>
      exact{};  // bit b of [a]: output nibble b has exactly the value of source nibble a
  std::array<std::uint16_t, 16> acceptable{};  // the same for what a correct conversion may write
  std::array<std::array<std::uint32_t, 16>, 16> count{};
};

// What is wrong or right about one block of 16.
struct BlockJudgement {
  bool exact = true;       // all values equal
  bool acceptable = true;  // a correct conversion may have written it
};

class PairHistogram {
 public:
  PairHistogram(const ScaleRule& source, const ScaleRule& output);

  // packed: 8 bytes each.
  BlockJudgement add(std::uint8_t source_code, std::uint8_t output_code, const std::byte* source_packed,
                     const std::byte* output_packed);
  CodePair& pair(std::uint8_t source_code, std::uint8_t output_code);
  const std::vector<CodePair>& pairs() const { return pairs_; }
  const ExpectedCodes& expected() const { return expected_; }
  ErrorSums error() const;
  std::uint64_t nan_values() const;
  // Share of elements with a nonzero source value that a correct conversion could not have written, were the
  // output's tensor factor another one.
  double bad_share(const Fraction& output_factor) const;

 private:
  CodePair judge(std::uint8_t source_code, std::uint8_t output_code, const ScaleRule& output,
                 const ExpectedCodes& expected) const;

  ScaleRule source_, output_;
  ExpectedCodes expected_;
  std::vector<CodePair> pairs_;
  std::vector<std::uint32_t> slot_;  // [65536], 1 + index into pairs_, 0 if there is none
};

}  // namespace perigee::verifying
