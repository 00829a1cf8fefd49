// The page as a transport gives it to a browser. What the page does is tested in a browser: tests/web.
#include "serve/web_routes.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "serve/dialect_fixture.h"
#include "serve/http_wire.h"
#include "support/vocabularies.h"

namespace perigee {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class WebRoutes : public ::testing::Test {
 protected:
  HttpResponse answer(const std::string& method, const std::string& path, HttpHeaders headers = {}) {
    HttpRequest request;
    request.method = method;
    request.path = path;
    request.headers = std::move(headers);
    request.peer = "test";
    return server.ask(std::move(request))->head;
  }
  HttpResponse get(const std::string& path) { return answer("GET", path); }

  static std::string header(const HttpResponse& response, const std::string& name) {
    return std::string(response.headers.find(name).value_or(""));
  }
  HttpResponse get_with_tag(const std::string& tag) {
    HttpHeaders headers;
    headers.add("If-None-Match", tag);
    return answer("GET", "/", std::move(headers));
  }

  test::DialectFixture server{test::nano_tokenizer()};
};

TEST_F(WebRoutes, GiveThePageAtTheRoot) {
  const HttpResponse page = get("/");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.content_type, "text/html; charset=utf-8");
  EXPECT_THAT(page.body, StartsWith("<!doctype html>"));
  EXPECT_THAT(page.body, HasSubstr("</html>"));
}

// Everything that a file names below /web/ is there, so that no part of the page is missing.
TEST_F(WebRoutes, HoldEveryFileThatAFileNames) {
  const auto expect_there = [&](const WebFile& file, const std::string& path) {
    EXPECT_EQ(get(path).status, 200) << file.path << " names " << path;
  };
  std::size_t named = 0;
  for (const WebFile& file : web_files()) {
    for (const auto& [mark, base] : {std::pair{"\"/web/", "/web/"}, {"from \"./", "/web/js/"}}) {
      const std::string begin(mark);
      for (std::size_t at = file.bytes.find(begin); at != std::string_view::npos;) {
        const std::size_t from = at + begin.size();
        const std::string_view name = file.bytes.substr(from, file.bytes.find('"', from) - from);
        expect_there(file, std::string(base) + std::string(name));
        ++named;
        at = file.bytes.find(begin, from);
      }
    }
  }
  EXPECT_GT(named, 20U);
}

TEST_F(WebRoutes, NameTheTypeOfEachFile) {
  EXPECT_EQ(get("/web/js/main.js").content_type, "text/javascript; charset=utf-8");
  EXPECT_EQ(get("/web/css/base.css").content_type, "text/css; charset=utf-8");
  EXPECT_EQ(get("/web/icon.svg").content_type, "image/svg+xml");
}

TEST_F(WebRoutes, ForbidScriptsAndContentFromElsewhere) {
  for (const char* path : {"/", "/web/js/main.js"}) {
    const HttpResponse response = get(path);
    EXPECT_THAT(header(response, "Content-Security-Policy"),
                AllOf(StartsWith("default-src 'none'; "), HasSubstr("script-src 'self';"),
                      HasSubstr("style-src 'self';"), HasSubstr("connect-src 'self';"),
                      HasSubstr("frame-ancestors 'none'"), HasSubstr("require-trusted-types-for 'script'"),
                      Not(HasSubstr("unsafe")), Not(HasSubstr("http"))));
    EXPECT_EQ(header(response, "Referrer-Policy"), "no-referrer");
    EXPECT_THAT(response_bytes(response, {}), HasSubstr("X-Content-Type-Options: nosniff\r\n"));
  }
}

// None of the ways in which text becomes markup or code is used anywhere, and no style or script is inline.
TEST_F(WebRoutes, NeverMakeMarkupOfText) {
  for (const WebFile& file : web_files()) {
    for (const char* danger : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser",
                               "createContextualFragment", "srcdoc", "eval(", "Function(",
                               "javascript:", " style=", "<style", "<script>"}) {
      EXPECT_EQ(file.bytes.find(danger), std::string_view::npos) << danger << " in " << file.path;
    }
  }
}

TEST_F(WebRoutes, AreAskedForAgainButSentOnlyIfTheyChanged) {
  const HttpResponse page = get("/");
  EXPECT_EQ(header(page, "Cache-Control"), "no-cache");
  const std::string tag = header(page, "ETag");
  EXPECT_GT(tag.size(), 20U);
  EXPECT_NE(tag, header(get("/web/js/main.js"), "ETag"));
  for (const std::string& known : {tag, "\"other\", " + tag, "W/" + tag, std::string("*")}) {
    const HttpResponse same = get_with_tag(known);
    EXPECT_EQ(same.status, 304) << known;
    EXPECT_EQ(same.body, "");
    EXPECT_EQ(header(same, "ETag"), tag);
  }
  EXPECT_EQ(get_with_tag("\"other\"").status, 200);
}

// A length of 0 would say that the page is empty (RFC 9110, 8.6).
TEST_F(WebRoutes, AnUnchangedFileHasNeitherLengthNorType) {
  const std::string bytes = response_bytes(get_with_tag("*"), {});
  EXPECT_THAT(bytes, AllOf(StartsWith("HTTP/1.1 304 Not Modified\r\n"), Not(HasSubstr("Content-Length")),
                           Not(HasSubstr("Content-Type"))));
}

TEST_F(WebRoutes, AnswerHeadLikeGet) {
  const HttpResponse head = answer("HEAD", "/");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.body, get("/").body);  // the transport leaves it out and keeps its length
  EXPECT_EQ(answer("POST", "/").status, 405);
}

TEST_F(WebRoutes, AreNotFoundUnderAnyOtherName) {
  for (const char* path : {"/web/", "/web/none.js", "/web/../web/index.html", "/web/js", "/index.html"}) {
    EXPECT_EQ(get(path).status, 404) << path;
  }
}

TEST_F(WebRoutes, NeedNoKey) {
  RouterOptions options;
  options.keys = {"secret"};
  test::DialectFixture keyed(test::nano_tokenizer(), options);
  EXPECT_EQ(keyed.get("/")->head.status, 200);
  EXPECT_EQ(keyed.get("/web/js/main.js")->head.status, 200);
  EXPECT_EQ(keyed.get("/v1/state")->head.status, 401);
}

TEST_F(WebRoutes, TheStateTellsOfTheMachineIfItIsKnown) {
  EXPECT_FALSE(test::body_of(*server.get("/v1/state")).contains("machine"));
  server.context.machine = [] { return nlohmann::ordered_json{{"threads", 3}}; };
  EXPECT_EQ(test::body_of(*server.get("/v1/state"))["machine"]["threads"], 3);
}

}  // namespace
}  // namespace perigee
