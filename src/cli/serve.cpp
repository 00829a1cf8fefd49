// perigee serve: a model behind the HTTP APIs of OpenAI and Anthropic. What is served is in serve/ and
// docs/serving.md; here the parts are put together, started, and stopped in the right order.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/machine_state.h"
#include "cli/serve_options.h"
#include "grammar/reply_grammar.h"
#include "model/fingerprint.h"
#include "serve/answer_parts.h"
#include "serve/scheduler_service.h"
#include "serve/web_routes.h"

namespace perigee {
namespace {

constexpr const char* kExamples = R"(Examples:
  perigee serve -m CKPT                                  http://127.0.0.1:8080, for this machine only; a
                                                         browser finds a chat there
  perigee serve -m CKPT --host 0.0.0.0 --api-key-file keys.txt --tls-cert chain.pem --tls-key key.pem
  perigee serve -m CKPT --host "" --unix perigee.sock    for its owner only; curl --unix-socket perigee.sock
  curl http://127.0.0.1:8080/v1/chat/completions -d '{"messages":[{"role":"user","content":"Hi"}]}'
Clients of OpenAI's API work with base URL http://127.0.0.1:8080/v1, clients of Anthropic's with
http://127.0.0.1:8080. The routes are listed at /openapi.json.
SIGTERM or Ctrl-C stops: replies may end first (--drain), a second one kills.)";

std::unique_ptr<PrefixCache> make_prefix_cache(const ServeArguments& arguments, const OpenModel& model) {
  const PrefixCacheOptions& options = arguments.prefixes;
  if (options.memory_bytes == 0 && options.folder.empty()) return nullptr;
  return std::make_unique<PrefixCache>(
      model.config(), model_fingerprint(model.weights(), arguments.model.precision), options);
}

ServedModel served_model(const ServeArguments& arguments, const OpenModel& model) {
  return {.names = arguments.names,
          .created = unix_seconds(),
          .context_tokens = model.config().max_position_embeddings};
}

void add_all_routes(Router& router, const ServeContext& context, bool web) {
  add_openai_routes(router, context);
  add_anthropic_routes(router, context);
  add_token_routes(router, context);
  add_state_routes(router, context);
  if (web) add_web_routes(router);
}

void wait_for(const CancelToken& cancel) {
  while (!cancel.cancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

// Runs the server until the token is set, then lets replies end.
void run_until(const CancelToken& cancel, HttpServer& server, Scheduler& scheduler, unsigned drain_seconds) {
  std::thread io([&server] { server.run(); });
  for (const std::string& url : server.urls()) log_info("listening on {}", url);
  wait_for(cancel);
  log_info("stopping; replies have {} s to end", drain_seconds);
  scheduler.drain();
  server.drain(std::chrono::seconds(drain_seconds));
  io.join();
  // Clients are gone, so what is left has been cancelled and ends with the step that runs.
  while (!scheduler.wait_until_idle(std::chrono::seconds(1))) {
  }
}

void run_serve(ServeArguments& arguments, const CancelToken& cancel) {
  complete_serve_arguments(arguments);
  const Tokenizer tokenizer = load_model_tokenizer(arguments.model);
  const OpenModel model(arguments.model, cancel);
  check_vocabulary_fits(tokenizer, model.config());
  const std::unique_ptr<PrefixCache> prefixes = make_prefix_cache(arguments, model);
  ServerMetrics metrics(arguments.names.front());
  arguments.router.on_answer = [&metrics](const std::string& route, int status) {
    metrics.count_request(route, status);
  };
  Router router(arguments.router);
  Scheduler scheduler(model.engine(), model.config(), arguments.scheduler, prefixes.get());
  SchedulerService service(scheduler, prefixes.get(), tokenizer, model.config().vocab_size);
  const ReplyGrammars grammars(tokenizer.vocabulary());
  const ServeContext context{.model = served_model(arguments, model),
                             .options = arguments.serve,
                             .tokenizer = tokenizer,
                             .service = service,
                             .metrics = metrics,
                             .image_size = refuse_images(),
                             .grammars = &grammars,
                             .machine = machine_state(arguments.model, arguments.scheduler, model)};
  add_all_routes(router, context, !arguments.no_web);
  HttpServer server(router, metrics, arguments.http);
  log_info("serving {} as {}", arguments.model.checkpoint.string(), fmt::join(arguments.names, ", "));
  run_until(cancel, server, scheduler, arguments.drain_seconds);
}

}  // namespace

void register_serve(CLI::App& app, CommandContext& context) {
  CLI::App& command =
      *app.add_subcommand("serve", "Serve a model over HTTP, as OpenAI's and Anthropic's APIs");
  const auto arguments = std::make_shared<ServeArguments>();
  add_serve_options(command, *arguments);
  command.footer(kExamples);
  command.callback([arguments, &context] { run_serve(*arguments, context.cancel); });
}

}  // namespace perigee
