// What can be wrong with a request, once, and the two ways in which APIs say it.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "engine/scheduler.h"
#include "serve/http_message.h"

namespace perigee {

enum class ApiFault {
  kInvalidRequest,
  kUnauthenticated,
  kForbidden,
  kNotFound,
  kModelNotFound,
  kMethodNotAllowed,
  kTimeout,
  kTooLarge,       // the body
  kHeadTooLarge,   // the header
  kContextLength,  // prompt and reply do not fit into the context
  kOverloaded,     // come back later
  kShuttingDown,
  kServer,  // not the client's doing
};

enum class ApiDialect { kOpenAi, kAnthropic };

// Errors of /v1/messages and below have Anthropic's shape, all others OpenAI's.
ApiDialect dialect_of_path(std::string_view path);

// Thrown by what reads requests; answered by the router.
class ApiError : public std::runtime_error {
 public:
  // `param`: the field at fault, e.g. "messages[0].role"; empty: none.
  ApiError(ApiFault fault, const std::string& sentence, std::string param = {})
      : std::runtime_error(sentence), fault_(fault), param_(std::move(param)) {}
  ApiFault fault() const { return fault_; }
  const std::string& param() const { return param_; }
  std::optional<int> retry_after;  // seconds

 private:
  ApiFault fault_;
  std::string param_;
};

// A RequestError keeps its field; kUsage is the request's fault; anything else is kServer, whose sentence is
// logged and not shown, because it may name files.
ApiError api_error_of(const std::exception& error);
ApiError api_error_of(const Refusal& refusal);
// Of a job that failed or was cancelled; only a server that stops cancels for clients that are still there.
ApiError api_error_of(const JobSummary& summary);

int status_of(ApiFault fault, ApiDialect dialect);
// {"error":{"message","type","param","code"}}, or {"type":"error","error":{"type","message"}}.
std::string error_json(const ApiError& error, ApiDialect dialect);
HttpResponse error_response(const ApiError& error, ApiDialect dialect);

}  // namespace perigee
