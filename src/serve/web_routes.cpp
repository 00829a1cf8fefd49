#include "serve/web_routes.h"

#include <fmt/format.h>

#include <array>
#include <map>

#include "base/error.h"
#include "base/hash.h"

namespace perigee {
namespace {

constexpr std::string_view kPage = "index.html";
constexpr std::string_view kFolder = "/web/";

// Nothing from elsewhere, no script or style in the text, no string that becomes markup, in nobody's frame.
constexpr const char* kContentPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src "
    "'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'";

struct WebAnswer {
  std::string content_type;
  std::string etag;
  std::string_view bytes;
};
using WebAnswers = std::map<std::string, WebAnswer, std::less<>>;

std::string content_type_of(std::string_view path) {
  static constexpr std::array<std::pair<std::string_view, const char*>, 4> kTypes = {{
      {".html", "text/html; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},
      {".js", "text/javascript; charset=utf-8"},
      {".svg", "image/svg+xml"},
  }};
  for (const auto& [suffix, type] : kTypes) {
    if (path.ends_with(suffix)) return type;
  }
  fail(ErrorCode::kInternal, "web/{}: its type is not known; add it to web_routes.cpp", path);
}

WebAnswers make_answers() {
  constexpr std::size_t kTagDigits = 32;
  WebAnswers answers;
  for (const WebFile& file : web_files()) {
    const std::string digest = sha256_hex(std::as_bytes(std::span(file.bytes.data(), file.bytes.size())));
    answers[std::string(file.path)] = {content_type_of(file.path),
                                       fmt::format("\"{}\"", digest.substr(0, kTagDigits)), file.bytes};
  }
  return answers;
}

// Whether one of the tags that the client has is this one (RFC 9110, 13.1.2); proxies make tags weak.
bool is_known(std::string_view tags, std::string_view etag) {
  return tags == "*" || tags.find(etag) != std::string_view::npos;
}

HttpResponse answer_of(const WebAnswer& answer, const HttpRequest& request) {
  HttpResponse response;
  response.content_type = answer.content_type;
  response.headers.add("ETag", answer.etag);
  response.headers.add("Cache-Control", "no-cache");  // ask again every time; a new program has a new page
  response.headers.add("Content-Security-Policy", kContentPolicy);
  response.headers.add("Referrer-Policy", "no-referrer");
  response.headers.add("Cross-Origin-Opener-Policy", "same-origin");
  response.headers.add("Cross-Origin-Resource-Policy", "same-origin");
  if (is_known(request.headers.find("If-None-Match").value_or(""), answer.etag)) {
    response.status = 304;
  } else {
    response.body = answer.bytes;
  }
  return response;
}

const WebAnswer& find_answer(const WebAnswers& answers, std::string_view path) {
  const auto found = answers.find(path);
  if (found == answers.end()) throw ApiError(ApiFault::kNotFound, "the page has no such file");
  return found->second;
}

}  // namespace

void add_web_routes(Router& router) {
  const auto answers = std::make_shared<const WebAnswers>(make_answers());
  const auto page = [answers](const HttpRequest& request, const auto& exchange) {
    exchange->respond(answer_of(find_answer(*answers, kPage), request));
  };
  const auto file = [answers](const HttpRequest& request, const auto& exchange) {
    const std::string_view path = std::string_view(request.path).substr(kFolder.size());
    exchange->respond(answer_of(find_answer(*answers, path), request));
  };
  for (const char* method : {"GET", "HEAD"}) {
    router.add({.method = method,
                .path = "/",
                .handler = page,
                .summary = "The page for people: a chat, and a view of the machine; needs no key",
                .request_schema = {},
                .open = true,
                .answer_type = "text/html"});
    router.add({.method = method,
                .path = std::string(kFolder) + "{file}",
                .handler = file,
                .summary = "A part of the page; needs no key",
                .request_schema = {},
                .open = true,
                .answer_type = "*/*"});
  }
}

}  // namespace perigee
