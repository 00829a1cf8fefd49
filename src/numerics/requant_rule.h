// What each requantisation method does to one block, in the libraries' own order of floating-point operations
// (docs/formats.md). No tables and no loops over data: requantise.cpp makes its tables by asking this, and
// its reference path asks this for every element.
#pragma once

#include <cstdint>

#include "numerics/requantise.h"

namespace perigee {

struct RequantRule {
  RequantMethod method = RequantMethod::kCompressedTensorsMinMax;
  int max_exponent = 0;    // K of the set; 0 without active groups
  float scale_2 = 1;       // multiplier
  float global_scale = 1;  // divisor
};

// Refuses (kUnsupported) sets whose largest value is no finite float, or, for kSaturate, whose K is below
// kMinMaxExponent.
RequantRule make_requant_rule(RequantMethod method, const Mxfp4Scan& set);

// Value of a source element; zero for the zero codes under every byte, NaN byte included.
float source_value(std::uint8_t code, std::uint8_t byte);

// True if the method keeps the block's nibbles as they are; `largest` is the block's largest |source_value|.
bool keeps_nibbles(const RequantRule& rule, std::uint8_t byte, float largest);

// Candidates for the block's E4M3 scale code, the preferred one first; single candidates come twice.
struct ScaleCandidates {
  std::uint8_t code[2];
};
ScaleCandidates scale_candidates(const RequantRule& rule, std::uint8_t byte, float largest);

// New nibble of a value under a block scale.
std::uint8_t requantise_value(const RequantRule& rule, std::uint8_t scale_code, float value);

// What a stored nibble stands for, in double.
double decoded_value(const RequantRule& rule, std::uint8_t scale_code, std::uint8_t nibble);

}  // namespace perigee
