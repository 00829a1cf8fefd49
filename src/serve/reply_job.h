// One reply being generated for a client, whatever the dialect: from the ids of a prompt through the engine
// and the reply parser to a sink that writes the dialect's words. Counts tokens, measures, stops the engine
// when the client leaves.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "serve/api_error.h"
#include "serve/dialect.h"
#include "text/prompt.h"
#include "text/reply_parser.h"

namespace perigee {

// As usage fields show them (docs/serving.md).
struct ReplyUsage {
  std::size_t prompt_tokens = 0;  // without those that open the reply's channel
  std::size_t cached_tokens = 0;  // of the prompt, not computed again
  std::size_t completion_tokens = 0;
  std::size_t reasoning_tokens = 0;  // up to the last one that showed reasoning
};

// Calls come one at a time on the engine's thread, in this order: started, tokens…, and finished or failed
// last. failed may be the first call. No call waits for anything.
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  virtual void started(const ReplyUsage& usage) = 0;
  // One more token and what it adds to the reply. False: the reader has left.
  virtual bool token(const SampledToken& token, std::span<const ReplyDelta> deltas,
                     const ReplyUsage& usage) = 0;
  // `deltas`: what was held back and is now known to be text.
  virtual void finished(const ReplyMessage& message, std::span<const ReplyDelta> deltas,
                        const ReplyUsage& usage) = 0;
  virtual void failed(const ApiError& error) = 0;
};

// A conversation ready to be generated.
struct ReplyRequest {
  PromptIds prompt;
  bool tools_allowed = false;
  std::size_t calls_so_far = 0;
  std::vector<std::size_t> snapshot_positions;  // ends of the messages in the prompt
  std::vector<std::string> stop;
  SamplingOptions sampling;
  std::size_t max_tokens = 0;
  std::size_t top_logprobs = 0;
  std::string client;  // for fairness
  int priority = 0;    // lower ones are served first
};

// Fills what follows from the conversation alone: prompt, tools, calls, snapshot positions.
ReplyRequest reply_request_of(const Conversation& conversation, const Tokenizer& tokenizer);

// `wanted`: what the client asked for, 0: nothing. kContextLength naming `prompt_param` for a prompt that
// fills the context, and `wanted_param` for a limit beyond it.
std::size_t checked_max_tokens(const ServeContext& context, std::size_t prompt_ids, std::size_t wanted,
                               const std::string& wanted_param, const std::string& prompt_param = "messages");

// Hands a job to the engine and has it cancelled if the client leaves. Throws ApiError if it is not taken.
void submit_job(const ServeContext& context, Job job, const std::shared_ptr<HttpExchange>& exchange);

// Throws ApiError if the engine does not take the job; then the sink hears nothing. If the client of
// `exchange` leaves, the engine stops and the sink hears failed().
void start_reply(const ServeContext& context, ReplyRequest request, std::shared_ptr<ReplySink> sink,
                 const std::shared_ptr<HttpExchange>& exchange);

}  // namespace perigee
