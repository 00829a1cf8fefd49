#include "serve/router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "serve/recorded_exchange.h"

namespace perigee {
namespace {

using test::RecordedExchange;
using ::testing::HasSubstr;

HttpRequest asking(const std::string& method, const std::string& path,
                   const std::vector<std::pair<std::string, std::string>>& headers = {}) {
  HttpRequest request{
      .method = method, .path = path, .query = {}, .headers = {}, .body = {}, .peer = "192.0.2.7"};
  for (const auto& [name, value] : headers) request.headers.add(name, value);
  return request;
}

Router made(RouterOptions options = {}) {
  Router router(std::move(options));
  const auto add = [&](const char* method, const char* path, bool open) {
    router.add({.method = method,
                .path = path,
                .handler =
                    [](const auto& request, const auto& exchange) {
                      if (request.body == "throw") throw ApiError(ApiFault::kInvalidRequest, "no", "field");
                      HttpResponse response;
                      response.body = request.path;
                      exchange->respond(std::move(response));
                    },
                .summary = "s",
                .request_schema = {},
                .open = open});
  };
  add("GET", "/open", true);
  add("GET", "/things", false);
  add("POST", "/things", false);
  add("GET", "/things/{thing}", false);
  return router;
}

HttpResponse answer_of(const Router& router, const HttpRequest& request) {
  const auto exchange = std::make_shared<RecordedExchange>();
  router.handle(request, exchange);
  EXPECT_EQ(exchange->answers, 1);
  return exchange->head;
}

TEST(Router, FindsRoutesByMethodAndPath) {
  const Router router = made();
  EXPECT_EQ(answer_of(router, asking("GET", "/things")).body, "/things");
  EXPECT_EQ(answer_of(router, asking("GET", "/things/a/b")).body, "/things/a/b");
  EXPECT_EQ(answer_of(router, asking("GET", "/things/")).status, 404);
  EXPECT_EQ(answer_of(router, asking("GET", "/thing")).status, 404);
  EXPECT_EQ(answer_of(router, asking("GET", "/things2")).status, 404);
}

TEST(Router, NamesTheMethodsThatWouldDo) {
  const HttpResponse response = answer_of(made(), asking("DELETE", "/things"));
  EXPECT_EQ(response.status, 405);
  EXPECT_EQ(response.headers.find("Allow"), "GET, POST");
}

TEST(Router, TakesEitherHeaderForAKey) {
  const Router router = made({.keys = {"one", "two"}, .cors_origins = {}, .hosts = {}, .on_answer = {}});
  const auto status = [&](const std::string& name, const std::string& value) {
    return answer_of(router, asking("GET", "/things", {{name, value}})).status;
  };
  EXPECT_EQ(status("Authorization", "Bearer one"), 200);
  EXPECT_EQ(status("authorization", "bearer two"), 200);
  EXPECT_EQ(status("X-API-Key", "two"), 200);
  EXPECT_EQ(status("Authorization", "Bearer on"), 401);
  EXPECT_EQ(status("Authorization", "Bearer onee"), 401);
  EXPECT_EQ(status("Authorization", "Bearer "), 401);
  EXPECT_EQ(status("Authorization", "Basic one"), 401);
  EXPECT_EQ(status("x-api-key", ""), 401);
  EXPECT_EQ(answer_of(router, asking("GET", "/open")).status, 200);
}

TEST(Router, TellsClientsApartByKeyOrAddress) {
  const Router keyed = made({.keys = {"one", "two"}, .cors_origins = {}, .hosts = {}, .on_answer = {}});
  const auto client = [&](const std::string& key) {
    return keyed.client_of(asking("GET", "/things", {{"x-api-key", key}}));
  };
  EXPECT_NE(client("one"), client("two"));
  EXPECT_EQ(client("one").find("one"), std::string::npos);  // keys go nowhere
  EXPECT_EQ(made().client_of(asking("GET", "/things")), "192.0.2.7");
}

TEST(Router, AnswersInTheDialectOfThePath) {
  const Router router = made();
  const auto openai = nlohmann::json::parse(answer_of(router, asking("GET", "/v1/none")).body);
  EXPECT_EQ(openai["error"]["type"], "invalid_request_error");
  EXPECT_TRUE(openai["error"]["param"].is_null());
  const auto anthropic = nlohmann::json::parse(answer_of(router, asking("GET", "/v1/messages/none")).body);
  EXPECT_EQ(anthropic["type"], "error");
  EXPECT_EQ(anthropic["error"]["type"], "not_found_error");
  EXPECT_EQ(dialect_of_path("/v1/messagesx"), ApiDialect::kOpenAi);
}

TEST(Router, AnswersWhatAHandlerThrows) {
  HttpRequest request = asking("POST", "/things");
  request.body = "throw";
  const HttpResponse response = answer_of(made(), request);
  EXPECT_EQ(response.status, 400);
  EXPECT_THAT(response.body, HasSubstr(R"("param":"field")"));
}

TEST(Router, RefusesPagesOfOtherOrigins) {
  const Router router = made();
  const auto status = [&](const std::string& origin) {
    return answer_of(router, asking("GET", "/things", {{"Host", "localhost:8080"}, {"Origin", origin}}))
        .status;
  };
  EXPECT_EQ(status("http://evil.example"), 403);
  EXPECT_EQ(status("null"), 403);
  EXPECT_EQ(status("http://localhost:9"), 403);
  EXPECT_EQ(status("http://localhost:8080"), 200);
}

TEST(Router, TellsBrowsersOfAllowedOrigins) {
  const Router router =
      made({.keys = {"k"}, .cors_origins = {"https://chat.example"}, .hosts = {}, .on_answer = {}});
  HttpResponse response = answer_of(router, asking("OPTIONS", "/things",
                                                   {{"Origin", "https://chat.example"},
                                                    {"Access-Control-Request-Method", "POST"},
                                                    {"Access-Control-Request-Headers", "authorization"}}));
  EXPECT_EQ(response.status, 204);
  EXPECT_EQ(response.headers.find("Access-Control-Allow-Origin"), "https://chat.example");
  EXPECT_EQ(response.headers.find("Access-Control-Allow-Headers"), "authorization");
  // Without the header a page could not even read why it was refused.
  response = answer_of(router, asking("GET", "/things", {{"Origin", "https://chat.example"}}));
  EXPECT_EQ(response.status, 401);
  EXPECT_EQ(response.headers.find("Access-Control-Allow-Origin"), "https://chat.example");
  response = answer_of(router, asking("OPTIONS", "/things", {{"Origin", "https://other.example"}}));
  EXPECT_EQ(response.status, 403);
  EXPECT_EQ(response.headers.find("Access-Control-Allow-Origin"), std::nullopt);
}

TEST(Router, AnswersOnLoopbackByLocalNamesOnly) {
  const Router router =
      made({.keys = {}, .cors_origins = {}, .hosts = {"localhost", "[::1]"}, .on_answer = {}});
  const auto status = [&](const std::string& host) {
    return answer_of(router, asking("GET", "/things", {{"Host", host}})).status;
  };
  EXPECT_EQ(status("localhost:8080"), 200);
  EXPECT_EQ(status("LOCALHOST"), 200);
  EXPECT_EQ(status("[::1]:8080"), 200);
  EXPECT_EQ(status("rebound.example:8080"), 403);
  EXPECT_EQ(status("localhost.rebound.example"), 403);
}

TEST(Router, RefusesALengthThatIsNoNumber) {
  EXPECT_EQ(answer_of(made(), asking("POST", "/things", {{"Content-Length", "-1"}})).status, 400);
  EXPECT_EQ(
      answer_of(made(), asking("POST", "/things", {{"Content-Length", "99999999999999999999999"}})).status,
      400);
}

TEST(Router, TellsOfEveryAnswer) {
  std::vector<std::string> answers;
  RouterOptions options;
  options.on_answer = [&](const std::string& route, int status) {
    answers.push_back(fmt::format("{} {}", route, status));
  };
  const Router router = made(options);
  answer_of(router, asking("GET", "/things/a"));
  answer_of(router, asking("GET", "/none"));
  EXPECT_THAT(answers, ::testing::ElementsAre("/things/{thing} 200", "refused 404"));
}

}  // namespace
}  // namespace perigee
