// One hash, shown on this machine: the same prompt and the same greedy tokens on every backend, with every
// number of threads, in differently cut prompts, again and again; each time the logits must be the same bits.
// Says nothing about whether they are the right ones: that is logits_parity.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "compute/ops.h"
#include "model/weights.h"
#include "text/tokenizer.h"

namespace perigee {

// A framed question, as a client would send it.
std::vector<TokenId> control_prompt(const Tokenizer& tokenizer);
// Without a vocabulary: ids spread over the model's own.
std::vector<TokenId> control_ids(const K3Config& config);

struct SelfcheckOptions {
  Precision precision = Precision::kBf16;
  std::vector<std::string> backends;  // empty: all of this machine
  unsigned most_threads = 0;          // 0: all cores
  unsigned cycles = 3;
  std::size_t tokens = 8;  // greedy tokens of each run
};

struct SelfcheckRow {
  unsigned cycle = 0;  // from 1
  std::string backend;
  unsigned threads = 0;
  std::size_t prompt_chunk = 0;
  TokenId top = 0;                // the most likely token after the prompt
  std::uint64_t logits_hash = 0;  // XXH3-64 of the float32 logits of every token
  double seconds = 0;
  bool equal = false;  // to the first row: top and hash
};

struct Selfcheck {
  std::vector<SelfcheckRow> rows;
  bool equal() const;  // at least two rows, and all equal
};

// 1, 2, 4, … and `most` itself.
std::vector<unsigned> thread_counts(unsigned most);

// kUsage for no cycle or no token, kInterrupted.
Selfcheck run_selfcheck(const LoadedModel& weights, const std::vector<TokenId>& prompt,
                        const SelfcheckOptions& options, const CancelToken& cancel);

}  // namespace perigee
