// From logits to the next token. Random numbers are counted, not drawn from a stream: token n of a sequence
// with seed s uses hash(s, n), so the same seed gives the same tokens in any batch. Exponentials and
// logarithms are our own (numerics/elementary.h), so that a draw does not depend on the C library either.
// Deliberately knows no text: stop strings are the caller's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

namespace perigee {

// Says which ids may come next: given all ids generated so far, it sets the bits of those ids, 64 to a word;
// all are clear at first. Copies of the options share what it refers to, so options with one serve one
// sequence.
using TokenFilter =
    std::function<void(std::span<const std::uint32_t> generated, std::span<std::uint64_t> allowed)>;

// In the order in which they are applied:
//  1. repetition_penalty, once for every id in `generated`: a positive logit is divided by it, others
//  multiplied
//  2. frequency_penalty times the number of occurrences in `generated`, and presence_penalty, are subtracted
//  3. logit_bias is added
//  4. banned ids are taken out, and those that the filter does not allow
//  5. temperature 0: the largest logit is chosen and the rest of this list does not matter;
//     otherwise logits are divided by the temperature
//  6. top_k: only so many of the most likely ids remain
//  7. top_p: of those, the fewest of the most likely ids whose probability (among those) reaches it
//  8. min_p: of those, ids at least this fraction as likely as the most likely one
//  9. one of those is drawn, in proportion to its probability
struct SamplingOptions {
  double temperature = 1;
  double top_p = 0.95;      // 1: off
  std::uint32_t top_k = 0;  // 0: off
  double min_p = 0;         // 0: off
  double frequency_penalty = 0;
  double presence_penalty = 0;
  double repetition_penalty = 1;  // 1: off
  std::uint64_t seed = 0;
  std::unordered_map<std::uint32_t, double> logit_bias;
  std::vector<std::uint32_t> banned;  // ids that are never chosen
  TokenFilter filter;                 // empty: all ids are allowed
};

struct TokenProbability {
  std::uint32_t id = 0;
  float log_probability = 0;  // of the unmodified distribution (temperature 1, no penalties)
};

struct SampledToken {
  TokenProbability chosen;
  std::vector<TokenProbability>
      top;  // the most likely ones of the unmodified distribution, as many as asked for
};

// kUsage naming the option that is out of range.
void check_sampling(const SamplingOptions& options);

// In [0, 1), the only random number that step `step` of a sequence with this seed uses: the upper 53 bits of
// the XXH3-64 hash of seed and step, 8 little-endian bytes each.
double uniform_number(std::uint64_t seed, std::uint64_t step);

// `generated`: ids so far, for penalties. `step`: how many tokens were sampled before. Ties go to the lower
// id. A NaN or an infinite largest logit is kInternal: a broken state must never look like token 0. kUsage
// for an id that the vocabulary does not have, or if no id remains.
SampledToken sample(std::span<const float> logits, const SamplingOptions& options,
                    std::span<const std::uint32_t> generated, std::uint64_t step, std::size_t top = 0);

}  // namespace perigee
