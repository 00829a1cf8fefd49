// What operators and monitors ask: /health, /metrics, /v1/state and the OpenAPI document.
#include "serve/dialect.h"
#include "serve/json_output.h"
#include "serve/openapi.h"

namespace perigee {
namespace {

Json jobs_json(const SchedulerStatistics& jobs) {
  return {{"running", jobs.running},          {"waiting", jobs.waiting},    {"finished", jobs.jobs_finished},
          {"cancelled", jobs.jobs_cancelled}, {"failed", jobs.jobs_failed}, {"refused", jobs.jobs_refused}};
}

// Of running jobs that have not answered yet.
Json prompts_json(const SchedulerStatistics& jobs) {
  Json prompts = Json::array();
  for (const PromptProgress& prompt : jobs.prompts) {
    prompts.push_back({{"state", prompt.restoring ? "restoring" : "reading"},
                       {"done", prompt.done},
                       {"tokens", prompt.total}});
  }
  return prompts;
}

Json steps_json(const SchedulerStatistics& jobs) {
  return {{"count", jobs.steps}, {"model_seconds", jobs.model_seconds}, {"busy_seconds", jobs.busy_seconds}};
}

Json tokens_json(const SchedulerStatistics& jobs) {
  return {{"prompt", jobs.prompt_tokens},
          {"cached", jobs.cached_tokens},
          {"generated", jobs.generated_tokens},
          {"prompt_per_second", jobs.prompt_tokens_a_second},
          {"generated_per_second", jobs.generated_tokens_a_second}};
}

Json prefixes_json(const PrefixCacheStatistics& prefixes) {
  return {{"in_memory", prefixes.in_memory},
          {"memory_bytes", prefixes.memory_bytes},
          {"unwritten_bytes", prefixes.unwritten_bytes},
          {"in_folder", prefixes.in_folder},
          {"folder_bytes", prefixes.folder_bytes},
          {"hits", prefixes.hits},
          {"misses", prefixes.misses},
          {"damaged", prefixes.damaged},
          {"failed_writes", prefixes.failed_writes}};
}

Json state_json(const ServeContext& context) {
  const ServiceState state = context.service.state();
  Json json = {
      {"model", context.model.names.front()},
      {"context_tokens", context.model.context_tokens},
      {"jobs", jobs_json(state.scheduler)},
      {"prompts", prompts_json(state.scheduler)},
      {"steps", steps_json(state.scheduler)},
      {"tokens", tokens_json(state.scheduler)},
      {"state_memory",
       {{"reserved_bytes", state.scheduler.reserved_bytes}, {"bytes", state.scheduler.memory_bytes}}},
      {"prefixes", prefixes_json(state.prefixes)}};
  if (context.machine) json["machine"] = context.machine();
  return json;
}

void add_get(Router& router, const char* path, const char* summary, bool open,
             std::function<HttpResponse()> answer, const char* answer_type = "application/json") {
  router.add({.method = "GET",
              .path = path,
              .handler = [answer = std::move(answer)](const auto&,
                                                      const auto& exchange) { exchange->respond(answer()); },
              .summary = summary,
              .request_schema = {},
              .open = open,
              .answer_type = answer_type});
}

HttpResponse json_response(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  return response;
}

}  // namespace

void add_state_routes(Router& router, const ServeContext& context) {
  add_get(router, "/health", "Whether the server answers; needs no key", true, [] {
    return json_response(json_text({{"status", "ok"}}));
  });
  const auto metrics = [&context] {
    HttpResponse response = json_response(context.metrics.text(context.service.state()));
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    return response;
  };
  add_get(router, "/metrics", "Counters and times for Prometheus", false, metrics, "text/plain");
  add_get(router, "/v1/state", "What the server is doing", false,
          [&context] { return json_response(json_text(state_json(context))); });
  add_get(router, "/openapi.json", "This list of routes", false,
          [&router] { return json_response(openapi_document(router)); });
}

}  // namespace perigee
