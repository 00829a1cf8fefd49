// What Anthropic's dialect makes of requests, beyond the committed ones.
#include "serve/anthropic_fixture.h"

namespace perigee {
namespace {

using namespace test;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class AnthropicRequest : public AnthropicFixture {};

// Bodies, and how the sentence that refuses them begins: the place of the fault.
TEST_F(AnthropicRequest, NamesThePlaceOfWhatIsWrong) {
  const std::string block = R"([{"type":"text","text":"a"},)";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"messages":[]})", "max_tokens is missing"},
      {R"({"max_tokens":1.5,"messages":[]})", "messages is empty"},
      {R"({"max_tokens":1.5,"messages":[{"role":"user","content":"Hi"}]})", "max_tokens is 1.5"},
      {R"({"max_tokens":1,"messages":{}})", "messages is an object"},
      {request("3"), "messages[0] is 3"},
      {request(R"({"content":"Hi"})"), "messages[0].role is missing"},
      {request(R"({"role":"tool","content":"Hi"})"), "messages[0].role is \"tool\""},
      {request(R"({"role":"user"})"), "messages[0].content is missing"},
      {request(user("7")), "messages[0].content is 7"},
      {request(user(block + "3]")), "messages[0].content[1] is 3"},
      {request(user(block + "{}]")), "messages[0].content[1].type is missing"},
      {request(user(R"([{"type":"text"}])")), "messages[0].content[0].text is missing"},
      {request(user(R"([{"type":"document"}])")), "messages[0].content[0].type is \"document\""},
      {request(user(R"([{"type":"image"}])")), "messages[0].content[0].source is missing"},
      {request(user(R"([{"type":"image","source":{"type":"file","file_id":"f"}}])")),
       "messages[0].content[0].source.type is \"file\""},
      {request(user(R"([{"type":"image","source":{"type":"base64","data":""}}])")),
       "messages[0].content[0].source.media_type is missing"},
      {request(user(R"([{"type":"image","source":{"type":"url","url":"http://a/b"}}])")),
       "messages[0].content[0].source is no data URL"},
      {request(kHi + "," +
               user(block + R"({"type":"image","source":{"type":"base64","media_type":"a/b","data":""}}])")),
       "messages[1].content[1].source is an image"},
      {request(user(R"([{"type":"tool_result","content":"x"}])")),
       "messages[0].content[0].tool_use_id is missing"},
      {request(kCall + "," + user(R"([{"type":"tool_result","tool_use_id":"t2"}])")),
       "messages[1].content[0].tool_use_id is \"t2\", which is no tool_use"},
      {request(kCall + "," + kHi + "," + assistant(R"("a")") + "," +
               user(R"([{"type":"tool_result","tool_use_id":"t1"}])")),
       "messages[3].content[0].tool_use_id is \"t1\""},
      {request(kCall + "," + user(R"([{"type":"tool_result","tool_use_id":"t1","is_error":"no"}])")),
       "messages[1].content[0].is_error is \"no\""},
      {request(kCall + "," +
               user(R"([{"type":"tool_result","tool_use_id":"t1","content":[{"type":"thinking"}]}])")),
       "messages[1].content[0].content[0].type is \"thinking\""},
      {request(assistant(R"([{"type":"thinking"}])")), "messages[0].content[0].thinking is missing"},
      {request(assistant(R"([{"type":"image"}])")), "messages[0].content[0].type is \"image\""},
      {request(assistant(R"([{"type":"tool_use","name":"f","input":{}}])")),
       "messages[0].content[0].id is missing"},
      {request(assistant(R"([{"type":"tool_use","id":"t","input":{}}])")),
       "messages[0].content[0].name is missing"},
      {request(assistant(R"([{"type":"tool_use","id":"t","name":"f","input":"{}"}])")),
       "messages[0].content[0].input is \"{}\""},
      {request(kHi + "," + kCall), "messages[1].content[0] is a tool_use in the last message"},
      {request(kHi, R"("system":3)"), "system is 3"},
      {request(kHi, R"("system":[{"type":"image"}])"), "system[0].type is \"image\""},
      {request(R"({"role":"system","content":[{"type":"image"}]})"), "messages[0].content[0].type"},
      {request(kHi, R"("tools":{})"), "tools is an object"},
      {request(kHi, R"("tools":[3])"), "tools[0] is 3"},
      {request(kHi, R"("tools":[{"type":"bash_20250124","name":"bash"}])"),
       "tools[0].type is \"bash_20250124\""},
      {request(kHi, R"("tools":[{"name":"f","input_schema":3}])"), "tools[0].input_schema is 3"},
      {request(kHi, R"("tools":[{"input_schema":{}}])"), "tools[0].name is no function name"},
      {request(kHi, R"("tools":[{"name":"f","input_schema":{}},{"name":"f","input_schema":{}}])"),
       "tools[1].name is declared twice"},
      {request(kHi, R"("tool_choice":"auto")"), "tool_choice is \"auto\"; it must be an object"},
      {request(kHi, R"("tool_choice":{"type":"maybe"})"), "tool_choice.type is \"maybe\""},
      {request(kHi, R"("tool_choice":{"type":"any"})"), "tool_choice asks for a call"},
      {request(kHi, kTools + R"(,"tool_choice":{"type":"tool"})"), "tool_choice.name is missing"},
      {request(kHi, kTools + R"(,"tool_choice":{"type":"tool","name":"g"})"), "tool_choice names a function"},
      {request(kHi, kTools + R"(,"tool_choice":{"type":"auto","disable_parallel_tool_use":1})"),
       "tool_choice.disable_parallel_tool_use is 1"},
      {request(kHi, R"("thinking":3)"), "thinking is 3"},
      {request(kHi, R"("thinking":{"type":"deep"})"), "thinking.type is \"deep\""},
      {request(kHi, R"("thinking":{"type":"enabled","budget_tokens":0})"), "thinking.budget_tokens is 0"},
      {request(kHi, R"("output_config":{"effort":"turbo"})"), "output_config.effort is \"turbo\""},
      {request(kHi, R"("output_config":{"format":{"type":"text"}})"), "output_config.format.type must be"},
      {request(kHi, R"("output_config":{"format":{"type":"json_schema","schema":3}})"),
       "output_config.format.schema is 3"},
      {request(kHi, R"("output_format":{"type":"json_schema"})"), "output_format.schema is missing"},
      {request(kHi, R"("metadata":{"user_id":3})"), "metadata.user_id is 3"},
      {request(kHi, R"("stop_sequences":[""])"), "stop_sequences[0] is empty"},
      {request(kHi, R"("top_k":0.5)"), "top_k is 0.5"},
      {request(kHi, R"("top_p":2)"), "top_p is 2"},
      {request(kHi, R"("stream":1)"), "stream is 1"},
  };
  for (const auto& [body, sentence] : cases) EXPECT_THAT(refused(body), StartsWith(sentence)) << body;
  EXPECT_TRUE(server.service.jobs.empty());
}

TEST_F(AnthropicRequest, RendersTurnsOfBlocks) {
  const std::string turns =
      user(R"("a")") + "," + user(R"([{"type":"text","text":"b"}])") + "," + assistant(R"("c")") + "," +
      assistant(R"([{"type":"thinking","thinking":"gone: thinking is off","signature":"s"},)"
                R"({"type":"redacted_thinking","data":"x"},{"type":"text","text":""},)"
                R"({"type":"tool_use","id":"t1","name":"f","input":{}},)"
                R"({"type":"tool_use","id":"t2","name":"g","input":{"k":1.0,"s":"x"}}])") +
      "," +
      user(R"([{"type":"text","text":"before "},{"type":"tool_result","tool_use_id":"t2","content":"two"},)"
           R"({"type":"tool_result","tool_use_id":"t1","is_error":true,)"
           R"("content":[{"type":"text","text":"one"}]},{"type":"text","text":"after"}])");
  answer(request(turns, kOff + R"(,"system":[{"type":"text","text":"S"},{"type":"text","text":"T"}])"));
  EXPECT_EQ(
      prompt(),
      frame("system\"", "ST") + frame("user\"", "ab") +
          frame("assistant\"",
                "<|open|>response<|sep|>c<|close|>response<|sep|><|open|>tools<|sep|>" + call("f", "1", "") +
                    call("g", "2", argument("k", "number", "1.0") + argument("s", "string", "x")) +
                    "<|close|>tools<|sep|>") +
          frame("tool\" tool=\"f\" index=\"1\"", "Error: one") +
          frame("tool\" tool=\"g\" index=\"2\"", "two") + frame("user\"", "before after") + kOpened);
}

TEST_F(AnthropicRequest, AddsNoMessageForTextsThatAreEmpty) {
  const std::string result = user(R"([{"type":"tool_result","tool_use_id":"t1"},{"type":"text","text":""}])");
  answer(request(kCall + "," + result, kOff + R"(,"system":"")"));
  EXPECT_EQ(prompt(),
            frame("assistant\"", "<|open|>response<|sep|><|close|>response<|sep|><|open|>tools<|sep|>" +
                                     call("get_time", "1", argument("city", "string", "Rome")) +
                                     "<|close|>tools<|sep|>") +
                frame("tool\" tool=\"get_time\" index=\"1\"", "") + kOpened);
}

TEST_F(AnthropicRequest, TakesSystemMessagesBetweenTurns) {
  answer(request(kHi + R"(,{"role":"system","content":[{"type":"text","text":"Now."}]},)" + kHi, kOff));
  EXPECT_EQ(prompt(), frame("user\"", "Hi") + frame("system\"", "Now.") + frame("user\"", "Hi") + kOpened);
}

TEST_F(AnthropicRequest, GoesOnWithALastTurnOfTheAssistant) {
  server.service.script = markup(" there<|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>");
  const json message = answer(request(
      kHi + "," + assistant(R"([{"type":"thinking","thinking":"Hm."},{"type":"text","text":"Hello"}])")));
  EXPECT_THAT(prompt(), ::testing::EndsWith(
                            "<|open|>think<|sep|>Hm.<|close|>think<|sep|><|open|>response<|sep|>Hello"));
  EXPECT_EQ(message["content"], json::parse(R"([{"type":"text","text":" there"}])"));
}

TEST_F(AnthropicRequest, ShowsImagesToAModelWithEyes) {
  std::vector<std::string> urls;
  server.context.image_size = [&](const std::string& url, const JsonNode&, const std::string&) {
    urls.push_back(url);
    return ImageSize{30, 20};
  };
  const std::string image =
      R"({"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}})";
  answer(request(
      kCall + "," +
          user(R"([{"type":"tool_result","tool_use_id":"t1","content":[)" + image + "]}," + image + "]"),
      kOff));
  EXPECT_THAT(urls, ElementsAre("data:image/png;base64,AAAA", "data:image/png;base64,AAAA"));
  const std::string shown = "<|media_begin|>image 30x20<|media_content|><|media_pad|><|media_end|>";
  EXPECT_THAT(prompt(), HasSubstr("index=\"1\"<|sep|>" + shown + "<|close|>"));
  EXPECT_THAT(prompt(), HasSubstr("role=\"user\"<|sep|>" + shown + "<|close|>"));
}

TEST_F(AnthropicRequest, PassesSamplingOnToTheEngine) {
  answer(request(kHi, R"("temperature":0.5,"top_p":0.25,"top_k":7,"seed":9,"stop_sequences":["zz"])"));
  const GenerationRequest& asked = job().request;
  EXPECT_EQ(asked.sampling.temperature, 0.5);
  EXPECT_EQ(asked.sampling.top_p, 0.25);
  EXPECT_EQ(asked.sampling.top_k, 7U);
  EXPECT_EQ(asked.sampling.seed, 9U);
  EXPECT_EQ(asked.max_tokens, 400U);
  EXPECT_FALSE(asked.sampling.filter);
}

TEST_F(AnthropicRequest, TellsUsersOfOneAddressApartWithoutKnowingThem) {
  const auto client = [&](const std::string& more) {
    answer(request(kHi, more));
    return job().client;
  };
  const std::string nobody = client("");
  const std::string ann = client(R"("metadata":{"user_id":"ann"})");
  EXPECT_EQ(ann, client(R"("metadata":{"user_id":"ann"})"));
  EXPECT_NE(ann, client(R"("metadata":{"user_id":"bob"})"));
  EXPECT_NE(ann, nobody);
  EXPECT_THAT(ann, Not(HasSubstr("ann")));
}

// A field that the document names is read: a value of a wrong type is refused by its name.
TEST_F(AnthropicRequest, DescribesFieldsThatItReads) {
  const json document = body_of(*server.get("/openapi.json"));
  for (const std::string& path : {kMessages, kCount}) {
    const json schema =
        document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"];
    EXPECT_GE(schema["properties"].size(), 17U);
    for (const auto& [field, description] : schema["properties"].items()) {
      json body = json::parse(request(kHi));
      const bool takes_lists = description.dump().find("array") != std::string::npos;
      body[field] = takes_lists ? json(true) : json::array({true});
      EXPECT_THAT(refused(body.dump(), path), StartsWith(field + " "));
    }
  }
}

}  // namespace
}  // namespace perigee
