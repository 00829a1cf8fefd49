// prompts.json: requests to prompt text and prompt ids.
#include "proof/golden_request.h"
#include "proof/parity_rows.h"
#include "proof/parity_suites.h"

namespace perigee {

void check_prompts(const Golden& file, const Tokenizer& tokenizer, ParityRows& rows) {
  const PromptEncoder encoder(tokenizer);
  ParityTally texts("prompts: text"), ids("prompts: ids");
  for (const Golden& golden : file.objects("cases")) {
    const JsonNode& input = golden.field("input");
    const auto render = [&] { return render_golden(input, GenerationPrompt::kOpen); };
    texts.text(golden.name(), golden.text("text"), [&] { return prompt_text(render()); });
    ids.ids(golden.name(), golden.ids("ids"), [&] { return encoder.encode(render()).ids; });
  }
  rows.push_back(texts.row());
  rows.push_back(ids.row());
}

}  // namespace perigee
