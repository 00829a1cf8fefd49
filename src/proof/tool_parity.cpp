// tool_codec.json: declared tools, calls to elements and back, results, the request's system messages, and
// what must be refused. What a field adds to a prompt is found by rendering with it and without it.
#include <span>

#include "proof/golden_request.h"
#include "proof/parity_rows.h"
#include "proof/parity_suites.h"
#include "text/conversation_json.h"
#include "text/json_write.h"
#include "text/reply_parser.h"

namespace perigee {
namespace {

using Segments = std::vector<Segment>;

constexpr const char* kUser = R"({"role":"user","content":"go"})";
constexpr std::size_t kMessageEnd = 4;  // segments of <|close|>message<|sep|><|end_of_msg|>

// How a tally pair compares some segments with a golden's "text" and "ids".
struct SegmentTallies {
  ParityTally text, ids;
  const PromptEncoder& encoder;

  SegmentTallies(const std::string& what, const PromptEncoder& prompt_encoder)
      : text(what + ": text"), ids(what + ": ids"), encoder(prompt_encoder) {}

  template <typename Render>
  void compare(const std::string& name, const Golden& golden, Render&& render) {
    text.text(name, golden.text("text"), [&] { return prompt_text(render()); });
    ids.ids(name, golden.ids("ids"), [&] { return encoder.encode(render()).ids; });
  }
  void add_to(ParityRows& rows) const {
    rows.push_back(text.row());
    rows.push_back(ids.row());
  }
};

Segments render(const std::string& request) {
  return render_golden(request, GenerationPrompt::kNone);
}

// The segments that `with` has and `without` has not, which begin behind `before` segments.
Segments added(const Segments& with, const Segments& without, std::size_t before) {
  if (with.size() < without.size() || before > without.size()) return {};
  const auto begin = with.begin() + static_cast<std::ptrdiff_t>(before);
  return {begin, begin + static_cast<std::ptrdiff_t>(with.size() - without.size())};
}

void check_declared(const Golden& file, const PromptEncoder& encoder, ParityRows& rows) {
  ParityTally json("tools: JSON");
  SegmentTallies declared("tools declared", encoder), dynamic("tools in a system message", encoder);
  const std::string plain = fmt::format(R"({{"messages":[{}]}})", kUser);
  for (const Golden& golden : file.objects("declare")) {
    const std::string& tools = golden.text("tools");
    json.text(golden.name(), golden.text("json"),
              [&] { return sorted_compact_json(JsonTree::parse(tools, "tools").root()); });
    declared.compare(golden.name(), golden, [&] {
      return added(render(fmt::format(R"({{"messages":[{}],"tools":{}}})", kUser, tools)), render(plain), 0);
    });
    if (!golden.has("as_system_message")) continue;
    dynamic.compare(golden.name(), golden.object("as_system_message"), [&] {
      return render(fmt::format(R"({{"messages":[{{"role":"system","tools":{}}}]}})", tools));
    });
  }
  rows.push_back(json.row());
  declared.add_to(rows);
  dynamic.add_to(rows);
}

std::string assistant(const std::string& calls) {
  return fmt::format(R"({{"messages":[{},{{"role":"assistant","content":""{}}}]}})", kUser, calls);
}

// The tools block of an assistant message, given the whole prompt with it.
Segments tools_block(const Segments& with) {
  const Segments without = render(assistant(""));
  return added(with, without, without.size() - kMessageEnd);
}

ReplyMessage read_back(std::span<const TokenId> ids, const Tokenizer& tokenizer) {
  ReplyOptions options;
  options.start = Channel::kIdle;
  ReplyParser parser(tokenizer, options);
  std::vector<ReplyDelta> deltas;
  parser.push(ids, deltas);
  return parser.finish(EndedBy::kStop, deltas);
}

Segments render_calls(const std::vector<ReplyCall>& calls) {
  const JsonTree tree = JsonTree::parse(assistant(""), "request");
  Conversation conversation =
      read_conversation(tree.root(), {.lenient = true, .default_effort = {}, .image_size = {}});
  for (const ReplyCall& call : calls) {
    conversation.messages.back().calls.push_back({call.id, call.name, arguments_from_text(call.arguments)});
  }
  return tools_block(build_prompt(conversation, GenerationPrompt::kNone));
}

std::string calls_text(const std::vector<std::string>& arguments) {
  return fmt::format("{} calls\n{}", arguments.size(), fmt::join(arguments, "\n"));
}

void check_calls(const Golden& file, const PromptEncoder& encoder, const Tokenizer& tokenizer,
                 ParityRows& rows) {
  SegmentTallies written("tool calls", encoder);
  ParityTally read("tool calls: read back"), again("tool calls: read back and written again");
  for (const Golden& golden : file.objects("calls")) {
    const std::vector<TokenId> ids = golden.ids("ids");
    written.compare(golden.name(), golden, [&] {
      return tools_block(render(assistant(",\"tool_calls\":" + golden.text("tool_calls"))));
    });
    read.text(golden.name(), calls_text(golden.texts("decoded_arguments")), [&] {
      std::vector<std::string> arguments;
      for (const ReplyCall& call : read_back(ids, tokenizer).calls) arguments.push_back(call.arguments);
      return calls_text(arguments);
    });
    const bool same = golden.flag("encodes_back_the_same", true);
    again.text(golden.name(), same ? "the same ids" : "other ids", [&] {
      const Segments segments = render_calls(read_back(ids, tokenizer).calls);
      return encoder.encode(segments).ids == ids ? "the same ids" : "other ids";
    });
  }
  written.add_to(rows);
  rows.push_back(read.row());
  rows.push_back(again.row());
}

// Text of each tool message, one a line.
std::string tool_frames(const Segments& segments) {
  std::string frames, message;
  for (const Segment& segment : segments) {
    message += segment_text(segment);
    const Marker* marker = std::get_if<Marker>(&segment);
    if (marker == nullptr || *marker != Marker::kEndOfMessage) continue;
    if (message.starts_with("<|open|>message role=\"tool\"")) frames += message + "\n";
    message.clear();
  }
  return frames;
}

void check_results(const Golden& file, const PromptEncoder& encoder, ParityRows& rows) {
  SegmentTallies results("tool results", encoder);
  ParityTally frames("tool results: order");
  for (const Golden& golden : file.objects("results")) {
    const std::string request = fmt::format(R"({{"messages":{}}})", golden.field("messages").literal);
    results.compare(golden.name(), golden, [&] { return render(request); });
    std::string expected;
    for (const std::string& frame : golden.texts("tool_frames")) expected += frame + "\n";
    frames.text(golden.name(), expected, [&] { return tool_frames(render(request)); });
  }
  results.add_to(rows);
  rows.push_back(frames.row());
}

void check_system_messages(const Golden& file, const PromptEncoder& encoder, ParityRows& rows) {
  SegmentTallies messages("request's system messages", encoder);
  const auto request = [](const std::string& field) {
    return fmt::format(R"({{"messages":[{}],"tools":[{{"type":"function","function":{{"name":"f"}}}}]{}}})",
                       kUser, field);
  };
  for (const Golden& golden : file.objects("system_messages")) {
    const char* field = golden.has("tool_choice") ? "tool_choice" : "response_format";
    const std::string with = request(fmt::format(",\"{}\":{}", field, golden.text(field)));
    messages.compare(golden.name(), golden, [&] {
      const Segments without = render(request(""));
      return added(render(with), without, without.size());
    });
  }
  messages.add_to(rows);
}

void check_rejected(const Golden& file, ParityRows& rows) {
  ParityTally rejected("calls to be refused");
  for (const Golden& golden : file.objects("rejected")) {
    const std::string request = assistant(",\"tool_calls\":" + golden.text("tool_calls"));
    rejected.text(golden.name(), "refused", [&]() -> std::string {
      try {
        return prompt_text(render(request));
      } catch (const RequestError&) {
        return "refused";
      }
    });
  }
  rows.push_back(rejected.row());
}

}  // namespace

void check_tools(const Golden& file, const Tokenizer& tokenizer, ParityRows& rows) {
  const PromptEncoder encoder(tokenizer);
  check_declared(file, encoder, rows);
  check_calls(file, encoder, tokenizer, rows);
  check_results(file, encoder, rows);
  check_system_messages(file, encoder, rows);
  check_rejected(file, rows);
}

}  // namespace perigee
