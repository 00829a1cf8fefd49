#include "proof/selfcheck.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "base/hash.h"
#include "engine/engine.h"
#include "text/prompt.h"

namespace perigee {
namespace {

// How the prompt is cut, cycle by cycle: whole, in odd pieces, in small ones.
constexpr std::array<std::size_t, 3> kChunks = {256, 13, 5};

constexpr const char* kQuestion = "Which planet is nearest to the Sun? Answer with its name alone.";

SelfcheckRow run_once(const Model& model, const std::vector<TokenId>& prompt, std::size_t tokens,
                      std::size_t chunk, const CancelToken& cancel) {
  Xxh3 hash;
  GenerationRequest request;
  request.prompt = prompt;
  request.sampling.temperature = 0;
  request.max_tokens = tokens;
  request.on_logits = [&hash](std::span<const float> logits) { hash.update(std::as_bytes(logits)); };
  Sequence sequence(model.config(), std::move(request));
  const auto start = std::chrono::steady_clock::now();
  Engine(model, {.prompt_chunk = chunk}).run(sequence, {}, {}, cancel);
  SelfcheckRow row;
  row.prompt_chunk = chunk;
  row.top = sequence.generated().front().chosen.id;
  row.logits_hash = hash.value();
  row.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return row;
}

void check_options(const SelfcheckOptions& options) {
  if (options.cycles == 0) fail(ErrorCode::kUsage, "a selfcheck needs at least one cycle");
  if (options.tokens == 0) fail(ErrorCode::kUsage, "a selfcheck needs at least one token");
}

}  // namespace

std::vector<TokenId> control_prompt(const Tokenizer& tokenizer) {
  Conversation conversation;
  conversation.effort = Effort::kLow;
  Message question;
  question.content.push_back({kQuestion, std::nullopt});
  conversation.messages.push_back(std::move(question));
  return PromptEncoder(tokenizer).encode(build_prompt(conversation)).ids;
}

std::vector<TokenId> control_ids(const K3Config& config) {
  constexpr std::uint64_t kCount = 41;
  std::vector<TokenId> ids;
  for (std::uint64_t i = 0; i < kCount; ++i)
    ids.push_back(static_cast<TokenId>((i * i * 7919 + i * 104729 + 17) % config.vocab_size));
  return ids;
}

bool Selfcheck::equal() const {
  return rows.size() > 1 && std::all_of(rows.begin(), rows.end(), [](const auto& row) { return row.equal; });
}

std::vector<unsigned> thread_counts(unsigned most) {
  std::vector<unsigned> counts;
  for (unsigned count = 1; count < most; count *= 2) counts.push_back(count);
  counts.push_back(std::max(1U, most));
  return counts;
}

Selfcheck run_selfcheck(const LoadedModel& weights, const std::vector<TokenId>& prompt,
                        const SelfcheckOptions& options, const CancelToken& cancel) {
  check_options(options);
  const std::vector<std::string> backends =
      options.backends.empty() ? available_backends() : options.backends;
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  const unsigned most_threads = options.most_threads > 0 ? options.most_threads : cores;
  Selfcheck check;
  for (unsigned cycle = 1; cycle <= options.cycles; ++cycle) {
    for (const std::string& backend : backends) {
      // The definition has no threads.
      for (const unsigned threads : thread_counts(backend == "reference" ? 1 : most_threads)) {
        const std::unique_ptr<Ops> ops = make_ops({options.precision, threads, backend});
        SelfcheckRow row = run_once(Model(weights, *ops), prompt, options.tokens,
                                    kChunks[(cycle - 1) % kChunks.size()], cancel);
        row.cycle = cycle;
        row.backend = backend;
        row.threads = threads;
        const SelfcheckRow& first = check.rows.empty() ? row : check.rows.front();
        row.equal = row.top == first.top && row.logits_hash == first.logits_hash;
        check.rows.push_back(std::move(row));
      }
    }
  }
  return check;
}

}  // namespace perigee
