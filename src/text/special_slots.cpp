// The special tokens of the released K3, for a vocabulary file without its tokenizer_config.json
// (docs/chat-format.md, "Special tokens"). Data only.
#include "text/vocabulary.h"

namespace perigee {

const SpecialSlots& k3_special_slots() {
  static const SpecialSlots slots{
      256,
      {
          {0, "[BOS]"},
          {1, "[EOS]"},
          {2, "<|end_of_msg|>"},
          {3, "<|open|>"},
          {4, "<|close|>"},
          {5, "<|sep|>"},
          {6, "[start_header_id]"},
          {7, "[end_header_id]"},
          {9, "[EOT]"},
          {18, "<|media_begin|>"},
          {19, "<|media_content|>"},
          {20, "<|media_end|>"},
          {21, "<|media_pad|>"},
          {65, "<osagent_mode>"},
          {254, "[UNK]"},
          {255, "[PAD]"},
      },
  };
  return slots;
}

}  // namespace perigee
