#include "serve/scheduler_service.h"

#include "text/chat_tokens.h"

namespace perigee {

SchedulerService::SchedulerService(Scheduler& scheduler, const PrefixCache* prefixes,
                                   const Tokenizer& tokenizer, std::size_t model_ids)
    : scheduler_(scheduler),
      prefixes_(prefixes),
      banned_(ids_never_generated(tokenizer.vocabulary(), model_ids)) {
  const ChatTokens tokens = find_chat_tokens(tokenizer.vocabulary());
  end_ids_ = {tokens.end_of_message, tokens.end_of_text};
}

std::variant<JobId, Refusal> SchedulerService::submit(Job job) {
  job.request.end_ids = end_ids_;
  job.request.sampling.banned = banned_;
  return scheduler_.submit(std::move(job));
}

void SchedulerService::cancel(JobId id) {
  scheduler_.cancel(id);
}

ServiceState SchedulerService::state() const {
  return {scheduler_.statistics(), prefixes_ != nullptr ? prefixes_->statistics() : PrefixCacheStatistics{}};
}

}  // namespace perigee
