#include "serve/api_error.h"

#include <array>
#include <cmath>
#include <new>

#include "base/log.h"
#include "serve/json_output.h"
#include "text/conversation_json.h"

namespace perigee {
namespace {

struct Words {
  ApiFault fault;
  int openai_status;
  const char* openai_type;
  const char* openai_code;  // nullptr: null
  int anthropic_status;
  const char* anthropic_type;
};

constexpr const char* kInvalid = "invalid_request_error";

constexpr std::array<Words, 13> kWords = {{
    {ApiFault::kInvalidRequest, 400, kInvalid, nullptr, 400, kInvalid},
    {ApiFault::kUnauthenticated, 401, "incorrect_api_key_error", nullptr, 401, "authentication_error"},
    {ApiFault::kForbidden, 403, "permission_error", nullptr, 403, "permission_error"},
    {ApiFault::kNotFound, 404, kInvalid, nullptr, 404, "not_found_error"},
    {ApiFault::kModelNotFound, 404, kInvalid, "model_not_found", 404, "not_found_error"},
    {ApiFault::kMethodNotAllowed, 405, kInvalid, nullptr, 405, kInvalid},
    {ApiFault::kTimeout, 408, kInvalid, nullptr, 408, "timeout_error"},
    {ApiFault::kTooLarge, 413, kInvalid, nullptr, 413, "request_too_large"},
    {ApiFault::kHeadTooLarge, 431, kInvalid, nullptr, 431, kInvalid},
    {ApiFault::kContextLength, 400, kInvalid, "context_length_exceeded", 400, kInvalid},
    {ApiFault::kOverloaded, 429, "engine_overloaded_error", nullptr, 529, "overloaded_error"},
    {ApiFault::kShuttingDown, 503, "server_error", "server_interrupted", 503, "overloaded_error"},
    {ApiFault::kServer, 500, "server_error", nullptr, 500, "api_error"},
}};

const Words& words_of(ApiFault fault) {
  for (const Words& words : kWords) {
    if (words.fault == fault) return words;
  }
  fail(ErrorCode::kInternal, "a fault has no words");
}

ApiError server_fault(const char* cause) {
  log_message(LogLevel::kError, fmt::format("a request failed: {}", cause));
  return ApiError(ApiFault::kServer, "the server failed; its log says why");
}

}  // namespace

ApiDialect dialect_of_path(std::string_view path) {
  constexpr std::string_view kMessages = "/v1/messages";
  const bool below =
      path.starts_with(kMessages) && (path.size() == kMessages.size() || path[kMessages.size()] == '/');
  return below ? ApiDialect::kAnthropic : ApiDialect::kOpenAi;
}

ApiError api_error_of(const std::exception& error) {
  if (const auto* api = dynamic_cast<const ApiError*>(&error)) return *api;
  if (const auto* request = dynamic_cast<const RequestError*>(&error)) {
    return ApiError(ApiFault::kInvalidRequest, request->what(), request->param());
  }
  if (const auto* known = dynamic_cast<const Error*>(&error)) {
    if (known->code() == ErrorCode::kUsage) return ApiError(ApiFault::kInvalidRequest, known->what());
  }
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return ApiError(ApiFault::kOverloaded, "the server has no memory left for this request; send it later");
  }
  return server_fault(error.what());
}

ApiError api_error_of(const Refusal& refusal) {
  switch (refusal.reason) {
    case Refusal::Reason::kQueueFull: {
      ApiError error(ApiFault::kOverloaded, refusal.sentence);
      error.retry_after = static_cast<int>(std::ceil(refusal.retry_after_seconds));
      return error;
    }
    case Refusal::Reason::kDraining:
      return ApiError(ApiFault::kShuttingDown, refusal.sentence);
    case Refusal::Reason::kTooLarge:
      break;
  }
  return ApiError(ApiFault::kContextLength, refusal.sentence);
}

ApiError api_error_of(const JobSummary& summary) {
  if (!summary.failure) {
    return ApiError(ApiFault::kShuttingDown, "the server is shutting down; send the request again");
  }
  try {
    std::rethrow_exception(summary.failure);
  } catch (const std::exception& error) {
    return api_error_of(error);
  }
}

int status_of(ApiFault fault, ApiDialect dialect) {
  const Words& words = words_of(fault);
  return dialect == ApiDialect::kOpenAi ? words.openai_status : words.anthropic_status;
}

std::string error_json(const ApiError& error, ApiDialect dialect) {
  const Words& words = words_of(error.fault());
  if (dialect == ApiDialect::kAnthropic) {
    return json_text(
        {{"type", "error"}, {"error", {{"type", words.anthropic_type}, {"message", error.what()}}}});
  }
  const Json code = words.openai_code != nullptr ? Json(words.openai_code) : Json();
  const Json param = error.param().empty() ? Json() : Json(error.param());
  return json_text(
      {{"error",
        {{"message", error.what()}, {"type", words.openai_type}, {"param", param}, {"code", code}}}});
}

HttpResponse error_response(const ApiError& error, ApiDialect dialect) {
  HttpResponse response;
  response.status = status_of(error.fault(), dialect);
  response.body = error_json(error, dialect);
  if (error.retry_after) response.headers.add("Retry-After", std::to_string(*error.retry_after));
  if (error.fault() == ApiFault::kUnauthenticated) response.headers.add("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace perigee
