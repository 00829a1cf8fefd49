#include "proof/small_goldens.h"

#include <fstream>

#include "proof/byte_vocabulary.h"

namespace perigee::test {
namespace {

using Json = nlohmann::ordered_json;

const std::string kUserGo = R"(<|open|>message role="user"<|sep|>go<|close|>message<|sep|><|end_of_msg|>)";
const std::string kAnswer = "A<|close|>think<|sep|><|open|>response<|sep|>B\xc3\xa9<|close|>response<|sep|>";
const std::string kEnd = "<|close|>message<|sep|><|end_of_msg|>";
const std::string kCall =
    R"(<|open|>call tool="f" index="1"<|sep|><|open|>argument key="n" type="number"<|sep|>12)";
const std::string kRestOfCall = "<|close|>argument<|sep|><|close|>call<|sep|>";
const std::string kToolsText =
    "# Tools\nHere are the available tools, described in JSONSchema.\n\n```json\n"
    R"([{"function":{"name":"f"},"type":"function"}])"
    "\n```";
const std::string kMoreToolsText =
    "## New Tools Available\nThe system dynamically extends the toolset via lazy-loading.\n"
    "You have access to all existing and extended tools.\nHere are the specs for the extended "
    "tools.\n\n```json\n"
    R"([{"function":{"name":"f"},"type":"function"}])"
    "\n```";

Json text_and_ids(const std::string& text) {
  return {{"text", text}, {"ids", byte_ids(text)}};
}

Json with(Json object, const Json& more) {
  object.update(more);
  return object;
}

std::string declaration(const std::string& body) {
  return R"(<|open|>message role="system" type="tool-declare"<|sep|>)" + body + kEnd;
}

template <typename... Items>
Json list(const Items&... items) {
  return Json::array({Json(items)...});
}

Json tokenizer_file() {
  const Json plain = {{"text", "ab\xc3\xa9"}, {"specials", false}, {"ids", list(97, 98, 0xC3, 0xA9)}};
  const Json special = {{"text", "<|sep|>"}, {"specials", true}, {"ids", list(kSep)}};
  const Json longer = {
      {"repeat", "ab"},
      {"times", 3},
      {"suffix", "c"},
      {"count", 7},
      // printf '[97,98,97,98,97,98,99]' | sha256sum
      {"sha256_of_json", "297eb57d1c1aed8e36535fdd26db38a00df27a41c3b382df406a814f393b11a0"}};
  return {{"cases", list(plain, special)}, {"long", list(longer)}};
}

Json message(const char* role, const Json& content) {
  return {{"role", role}, {"content", content}};
}

// Media tokens stand in slots 18 to 21.
std::vector<TokenId> image_ids(const std::string& before, const std::string& size, const std::string& after) {
  std::vector<TokenId> ids = byte_ids(before);
  const auto append = [&ids](const std::vector<TokenId>& more) {
    ids.insert(ids.end(), more.begin(), more.end());
  };
  append({256 + 18});
  append(byte_ids("image " + size));
  append({256 + 19, 256 + 21, 256 + 20});
  append(byte_ids(after));
  return ids;
}

Json prompts_file() {
  const std::string opened = R"(<|open|>message role="assistant"<|sep|><|open|>think<|sep|>)";
  const std::string user = R"(<|open|>message role="user"<|sep|>)";
  const std::string image = "<|media_begin|>image 6x4<|media_content|><|media_pad|><|media_end|>";
  const Json part = {{"type", "image_url"}, {"image_url", {{"url", "x"}}}};
  const Json go = {{"name", "go"}, {"input", {{"messages", list(message("user", "go"))}}}};
  const Json picture = {
      {"name", "image"},
      {"input", {{"messages", list(message("user", list(part)))}, {"image_prompts", list(image)}}},
      {"text", user + image + kEnd + opened},
      {"ids", image_ids(user, "6x4", kEnd + opened)}};
  return {{"cases", list(with(go, text_and_ids(kUserGo + opened)), picture)}};
}

Json declared_tool() {
  const Json tool = {{"name", "one"},
                     {"tools", R"([{"type":"function","function":{"name":"f"}}])"},
                     {"json", R"([{"function":{"name":"f"},"type":"function"}])"},
                     {"as_system_message", text_and_ids(declaration(kMoreToolsText))}};
  return with(tool, text_and_ids(declaration(kToolsText)));
}

Json tool_call() {
  const Json call = {{"name", "number"},
                     {"tool_calls", R"([{"id":"c","function":{"name":"f","arguments":"{\"n\":12}"}}])"},
                     {"decoded_arguments", list(R"({"n":12})")},
                     {"encodes_back_the_same", true}};
  return with(call, text_and_ids("<|open|>tools<|sep|>" + kCall + kRestOfCall + "<|close|>tools<|sep|>"));
}

Json tool_result() {
  const std::string frame = R"(<|open|>message role="tool" tool="t" index="1"<|sep|>r)" + kEnd;
  const Json result = {{"name", "named"},
                       {"messages", list(message("user", "go"), with(message("tool", "r"), {{"name", "t"}}))},
                       {"tool_frames", list(frame)}};
  return with(result, text_and_ids(kUserGo + frame));
}

Json tools_file() {
  const std::string required =
      R"(<|open|>message role="system" type="tool-choice"<|sep|>The system is invoked with `tool_choice=required`.)"
      "\nYou MUST call tools in the next message." +
      kEnd;
  const Json choice = {{"name", "required"}, {"tool_choice", "\"required\""}};
  const Json format = {{"name", "text"}, {"response_format", R"({"type":"text"})"}};
  const Json no_name = {{"name", "no_name"}, {"tool_calls", R"([{"id":"c","function":{"arguments":"{}"}}])"}};
  return {{"declare", list(declared_tool())},
          {"calls", list(tool_call())},
          {"results", list(tool_result())},
          {"system_messages", list(with(choice, text_and_ids(required)), with(format, text_and_ids("")))},
          {"rejected", list(no_name)}};
}

Json reply(const char* name, const char* ended_by, const std::string& text) {
  return with({{"name", name}, {"start", "think"}, {"ended_by", ended_by}}, text_and_ids(text));
}

Json view(const char* reasoning, const char* content, const Json& calls, const char* finish) {
  return {{"reasoning_content", reasoning},
          {"content", content},
          {"tool_calls", calls},
          {"finish_reason", finish}};
}

Json replies_file() {
  const std::string calls = kAnswer + "<|open|>tools<|sep|>" + kCall + kRestOfCall;
  const Json one_call = list(Json{{"id", "f_0"}, {"name", "f"}, {"arguments", R"({"n":12})"}});
  const Json answer = {{"expected", view("A", "B\xc3\xa9", list(), "stop")}, {"notes", list()}};
  const Json called = {{"expected", view("A", "B\xc3\xa9", one_call, "tool_calls")}, {"notes", list()}};
  const Json cut = {{"expected", view("A", "B\xc3\xa9", one_call, "length")},
                    {"notes", list("call_cut")},
                    {"unfinished_call", {{"name", "g"}, {"arguments_so_far", ""}}}};
  const Json start = with({{"start", "think"}}, text_and_ids("<|open|>think<|sep|>"));
  return {{"cases",
           list(with(reply("answer", "stop", kAnswer + kEnd), answer),
                with(reply("call", "stop", calls + "<|close|>tools<|sep|>" + kEnd), called),
                with(reply("cut", "max_tokens", calls + R"(<|open|>call tool="g" index="2"<|sep|>)"), cut))},
          {"start_state", list(start)}};
}

Json streams_file() {
  const std::string rest = "<|close|>think<|sep|><|open|>response<|sep|>ok<|close|>response<|sep|>";
  const std::string marker = "<|sep|>";
  Json ids(std::vector<int>(marker.begin(), marker.end()));  // spelled, byte by byte
  for (const TokenId id : byte_ids(rest)) ids.push_back(id);
  const Json spelled = {{"ids", ids},
                        {"marker_text_in_output", true},
                        {"streamed", view("<|sep|>", "ok", list(), "stop")},
                        {"equals_whole_reply", true}};
  const Json answer = {{"streamed", view("A", "B\xc3\xa9", list(), "stop")}, {"equals_whole_reply", true}};
  return {{"cases", list(with(reply("answer", "stop", kAnswer + kEnd), answer),
                         with(reply("spelled", "stop", rest), spelled))}};
}

}  // namespace

SmallGoldens::SmallGoldens() {
  files["tokenizer.json"] = tokenizer_file();
  files["prompts.json"] = prompts_file();
  files["chat/tool_codec.json"] = tools_file();
  files["chat/reply_parser.json"] = replies_file();
  files["chat/reply_stream.json"] = streams_file();
}

const std::filesystem::path& SmallGoldens::write() const {
  std::filesystem::create_directories(folder_ / "chat");
  for (const auto& [name, json] : files) std::ofstream(folder_ / name) << json.dump();
  return folder_.path();
}

}  // namespace perigee::test
