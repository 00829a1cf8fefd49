// A model that says what it was told to: for tests of the dialects.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "serve/generation_service.h"
#include "text/chat_tokens.h"
#include "text/tokenizer.h"

namespace perigee::test {

// Answers inside submit(), on the caller's thread.
class ScriptedService final : public GenerationService {
 public:
  explicit ScriptedService(const Tokenizer& tokenizer) : tokens_(find_chat_tokens(tokenizer.vocabulary())) {}

  std::vector<std::uint32_t> script;  // ids of every reply
  bool limited = true;                // false: says the whole script, whatever the limit
  std::size_t cached = 0;
  std::optional<Refusal> refusal;  // answers every submit() with it
  std::exception_ptr failure;      // what happens after the script
  std::vector<Job> jobs;           // as they were submitted

  std::variant<JobId, Refusal> submit(Job job) override {
    if (refusal) return *refusal;
    jobs.push_back(job);
    play(job);
    return jobs.size();
  }
  void cancel(JobId) override {}
  ServiceState state() const override { return {}; }

 private:
  void play(const Job& job) const {
    job.listener->on_started(cached);
    job.listener->on_prompt(job.request.prompt.size(), job.request.prompt.size());
    JobSummary summary;
    summary.end = GenerationEnd::kMaxTokens;
    summary.prompt_tokens = job.request.prompt.size();
    summary.cached_tokens = cached;
    for (const std::uint32_t id : script) {
      ++summary.generated_tokens;
      const bool wanted = job.listener->on_token(sampled(id, job.request.top_logprobs));
      if (tokens_.ends_reply(id)) summary.end = GenerationEnd::kEndToken;
      if (summary.end == GenerationEnd::kMaxTokens && !wanted) summary.end = GenerationEnd::kStopped;
      if (summary.end != GenerationEnd::kMaxTokens) break;
      if (limited && summary.generated_tokens == job.request.max_tokens) break;
    }
    summary.failure = failure;
    if (failure) summary.end = GenerationEnd::kFailed;
    job.listener->on_finished(summary);
  }

  static SampledToken sampled(std::uint32_t id, std::size_t top) {
    SampledToken token;
    token.chosen = {id, -0.25F};
    token.top.push_back(token.chosen);
    while (token.top.size() < top) token.top.push_back({static_cast<std::uint32_t>(token.top.size()), -8.F});
    token.top.resize(top);
    return token;
  }

  ChatTokens tokens_;
};

}  // namespace perigee::test
