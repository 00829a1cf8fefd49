// Everything that a forward pass shows of itself, under the names that recorded values have: "logits",
// "layers.3.attn_in", "layers.1.state", "bank", … Keeps all of it in memory: for short prompts.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "model/forward.h"

namespace perigee {

struct RecordedValues {
  std::vector<std::uint64_t> shape;  // rows first
  std::vector<float> values;
  bool integers = false;  // expert ids
};

struct RecordingOptions {
  bool inner = false;      // all of docs/model.md's values, not only the logits
  bool all_logits = true;  // of every position; otherwise of the last one
  std::vector<std::pair<std::size_t, const float*>> embeddings;  // instead of ids at these places; [hidden]
};

// From an empty state. kUsage for an empty prompt, one longer than the context, or an id that the model does
// not have; kInterrupted.
//   logits [positions, vocab]; layers.I.{attn_in,attn_out,ffn_in,ffn_out,prefix} [tokens, hidden];
//   layers.I.{expert_ids,expert_weights} [tokens, chosen]; layers.I.state [head, key, value] and
//   layers.I.conv_{q,k,v} [taps - 1, channels] after the prompt; bank [tokens, blocks, hidden];
//   final_in, final_normed [tokens, hidden]
std::map<std::string, RecordedValues> record_run(const Model& model, std::span<const std::uint32_t> ids,
                                                 const RecordingOptions& options, const CancelToken& cancel);

}  // namespace perigee
