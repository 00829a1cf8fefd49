#include "serve/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <mutex>

namespace perigee {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;
using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using Labels = std::map<std::string, std::string>;

// vLLM's, with a longer tail: a large model on a small machine takes its time.
const Histogram::BucketBoundaries kFirstTokenSeconds = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                                        0.25,  0.5,   0.75, 1,    2.5,  5,    7.5,  10,
                                                        20,    40,    80,   160,  640,  2560};
const Histogram::BucketBoundaries kTokenSeconds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075,
                                                   0.1,   0.15,   0.2,   0.3,  0.4,   0.5,  0.75,
                                                   1,     2.5,    5,     7.5,  10,    20};
const Histogram::BucketBoundaries kRequestSeconds = {0.1, 0.3, 0.5, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                                     30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};

}  // namespace

struct ServerMetrics::Families {
  explicit Families(const std::string& model_name) : labels{{"model_name", model_name}} {}

  Counter& counter(const char* name, const char* help) {
    return BuildCounter().Name(name).Help(help).Labels(labels).Register(registry).Add({});
  }
  Gauge& gauge(const char* name, const char* help) {
    return BuildGauge().Name(name).Help(help).Labels(labels).Register(registry).Add({});
  }
  Family<Counter>& counters(const char* name, const char* help) {
    return BuildCounter().Name(name).Help(help).Labels(labels).Register(registry);
  }
  Histogram& histogram(const char* name, const char* help, const Histogram::BucketBoundaries& bounds) {
    return BuildHistogram().Name(name).Help(help).Labels(labels).Register(registry).Add({}, bounds);
  }

  // Counters of the scheduler are kept there; here they only move on to what it says.
  static void advance(Counter& counter, double to) {
    const double missing = to - counter.Value();
    if (missing > 0) counter.Increment(missing);
  }

  std::mutex scrape;  // counters are advanced by what they miss
  const Labels labels;
  prometheus::Registry registry;

  Gauge& running = gauge("vllm:num_requests_running", "Requests in the engine");
  Gauge& waiting = gauge("vllm:num_requests_waiting", "Requests that wait for the engine");
  Gauge& memory =
      gauge("vllm:kv_cache_usage_perc", "Part of the memory for states that is set aside, 0 to 1");
  Counter& prompt = counter("vllm:prompt_tokens_total", "Prompt tokens, those from snapshots included");
  Counter& generated = counter("vllm:generation_tokens_total", "Tokens generated");
  Counter& queries =
      counter("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the cache of prefixes");
  Counter& hits = counter("vllm:prefix_cache_hits_total", "Prompt tokens found there");
  Family<Counter>& finished = counters("vllm:request_success_total", "Requests that ended, by reason");
  Histogram& first_token = histogram("vllm:time_to_first_token_seconds",
                                     "From the request to its first token", kFirstTokenSeconds);
  Histogram& per_token = histogram("vllm:time_per_output_token_seconds",
                                   "Mean time between the tokens of a request", kTokenSeconds);
  Histogram& whole =
      histogram("vllm:e2e_request_latency_seconds", "From the request to its end", kRequestSeconds);
  Histogram& queued = histogram("vllm:request_queue_time_seconds", "In the queue", kRequestSeconds);
  Histogram& prefill = histogram("vllm:request_prefill_time_seconds", "In the prompt", kRequestSeconds);
  Histogram& decode = histogram("vllm:request_decode_time_seconds", "In the reply", kRequestSeconds);

  Counter& refused = counter("perigee_requests_refused_total", "Requests that found the queue full");
  Counter& steps = counter("perigee_engine_steps_total", "Steps of the engine");
  Counter& model_seconds = counter("perigee_engine_model_seconds_total", "Time inside the engine's steps");
  Counter& busy_seconds =
      counter("perigee_engine_busy_seconds_total", "Time in which the scheduler had work, steps included");
  Counter& left = counter("perigee_clients_left_total", "Clients that left before their answer was complete");
  Gauge& connections = gauge("perigee_connections", "Open connections");
  Gauge& snapshot_bytes = gauge("perigee_prefix_memory_bytes", "Snapshots in memory");
  Family<Counter>& http = counters("perigee_http_requests_total", "Answers by route and status");
  Family<Counter>& notes = counters("perigee_reply_repairs_total", "What the reply parser had to repair");
};

ServerMetrics::ServerMetrics(const std::string& model_name)
    : families_(std::make_unique<Families>(model_name)) {}

ServerMetrics::~ServerMetrics() = default;

void ServerMetrics::count_request(const std::string& route, int status) {
  families_->http.Add({{"route", route}, {"status", std::to_string(status)}}).Increment();
}

void ServerMetrics::count_job(const JobSummary& summary, const std::string& finish_reason) {
  Families& families = *families_;
  families.finished.Add({{"finished_reason", finish_reason}}).Increment();
  if (summary.cancelled || summary.failure) return;  // their times say nothing
  families.queued.Observe(summary.waiting_seconds);
  families.prefill.Observe(summary.prompt_seconds);
  families.decode.Observe(summary.generation_seconds);
  families.first_token.Observe(summary.waiting_seconds + summary.prompt_seconds);
  families.whole.Observe(summary.waiting_seconds + summary.prompt_seconds + summary.generation_seconds);
  if (summary.generated_tokens > 1) {
    families.per_token.Observe(summary.generation_seconds /
                               static_cast<double>(summary.generated_tokens - 1));
  }
}

void ServerMetrics::count_reply_note(const std::string& note) {
  families_->notes.Add({{"repair", note}}).Increment();
}

void ServerMetrics::connection_opened() {
  families_->connections.Increment();
}

void ServerMetrics::connection_closed() {
  families_->connections.Decrement();
}

void ServerMetrics::client_left() {
  families_->left.Increment();
}

std::string ServerMetrics::text(const ServiceState& state) const {
  Families& families = *families_;
  const std::lock_guard lock(families.scrape);
  const SchedulerStatistics& jobs = state.scheduler;
  families.running.Set(static_cast<double>(jobs.running));
  families.waiting.Set(static_cast<double>(jobs.waiting));
  families.memory.Set(jobs.memory_bytes == 0 ? 0
                                             : static_cast<double>(jobs.reserved_bytes) /
                                                   static_cast<double>(jobs.memory_bytes));
  families.snapshot_bytes.Set(
      static_cast<double>(state.prefixes.memory_bytes + state.prefixes.unwritten_bytes));
  Families::advance(families.prompt, static_cast<double>(jobs.prompt_tokens + jobs.cached_tokens));
  Families::advance(families.queries, static_cast<double>(jobs.prompt_tokens + jobs.cached_tokens));
  Families::advance(families.hits, static_cast<double>(jobs.cached_tokens));
  Families::advance(families.generated, static_cast<double>(jobs.generated_tokens));
  Families::advance(families.refused, static_cast<double>(jobs.jobs_refused));
  Families::advance(families.steps, static_cast<double>(jobs.steps));
  Families::advance(families.model_seconds, jobs.model_seconds);
  Families::advance(families.busy_seconds, jobs.busy_seconds);
  return prometheus::TextSerializer().Serialize(families.registry.Collect());
}

}  // namespace perigee
