// perigee parse: the ids of a reply to the message that a server would send, whole or in increments.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/byte_streams.h"
#include "cli/choice.h"
#include "cli/command.h"
#include "cli/id_input.h"
#include "cli/reply_json.h"
#include "cli/vocabulary_option.h"
#include "text/reply_parser.h"

namespace perigee {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kExamples = R"(Examples:
  perigee parse reply.ids                                   the message as JSON
  perigee parse reply.ids --stream                          what a stream sends: one delta a line, then the end
  perigee parse reply.ids --cut                             generation stopped at max_tokens behind these ids
  echo -n '<|close|>think<|sep|><|open|>response<|sep|>Hi<|end_of_msg|>' | perigee parse --text
  perigee parse reply.ids --prompt prompt.ids               continue the channel that this prompt leaves open
The message has role, content, reasoning_content (null: none), tool_calls, finish_reason, and notes: what had to be
repaired or dropped. Structure is decided by ids: markup that ordinary tokens spell is text.)";

enum class StartChoice { kAuto, kThink, kResponse, kIdle };

struct ParseArguments {
  std::string file = kStandardInput;
  std::filesystem::path vocabulary;
  StartChoice start = StartChoice::kAuto;
  std::string prompt_file;
  std::vector<std::string> stop;
  bool no_tools = false;
  bool cut = false;
  bool text = false;
  bool stream = false;
  bool json = false;
};

Json message_json(const ReplyMessage& message) {
  Json json = reply_message_json(message);
  json["finish_reason"] = finish_reason_name(message.finish);
  json["notes"] = message.notes;
  return json;
}

// A chunk's delta in OpenAI's shape.
Json delta_json(const ReplyDelta& delta) {
  Json call;
  switch (delta.kind) {
    case ReplyDelta::Kind::kReasoning:
      return {{"reasoning_content", delta.text}};
    case ReplyDelta::Kind::kContent:
      return {{"content", delta.text}};
    case ReplyDelta::Kind::kCallStart:
      call = {{"index", delta.call},
              {"id", delta.id},
              {"type", "function"},
              {"function", call_function_json(delta.text, "")}};
      break;
    case ReplyDelta::Kind::kCallArguments:
      call = {{"index", delta.call}, {"function", {{"arguments", delta.text}}}};
      break;
  }
  return {{"tool_calls", Json::array({call})}};
}

std::string dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::vector<TokenId> read_ids(const std::string& file, const Tokenizer& tokenizer,
                              const CancelToken& cancel) {
  return parse_token_ids(read_input(file, cancel), tokenizer.vocabulary(), input_name(file));
}

Channel start_channel(const ParseArguments& arguments, const Tokenizer& tokenizer,
                      const CancelToken& cancel) {
  switch (arguments.start) {
    case StartChoice::kThink:
      return Channel::kThink;
    case StartChoice::kResponse:
      return Channel::kResponse;
    case StartChoice::kIdle:
      return Channel::kIdle;
    case StartChoice::kAuto:
      break;
  }
  if (arguments.prompt_file.empty()) return Channel::kThink;
  return open_channel(read_ids(arguments.prompt_file, tokenizer, cancel), tokenizer);
}

void print_deltas(const std::vector<ReplyDelta>& deltas, OutputBuffer& out) {
  for (const ReplyDelta& delta : deltas) out.add(dump(delta_json(delta), -1));
}

void run_parse(const ParseArguments& arguments, const CancelToken& cancel) {
  if (arguments.prompt_file == kStandardInput && arguments.file == kStandardInput) {
    fail(ErrorCode::kUsage,
         "the reply and --prompt cannot both come from standard input; name a file for one");
  }
  if (!arguments.prompt_file.empty() && arguments.start != StartChoice::kAuto) {
    fail(ErrorCode::kUsage, "--prompt says what --start says; give one of them");
  }
  const Tokenizer tokenizer = load_tokenizer(arguments.vocabulary);
  ReplyOptions options;
  options.start = start_channel(arguments, tokenizer, cancel);
  options.tools_allowed = !arguments.no_tools;
  options.stop = arguments.stop;
  const std::vector<TokenId> ids = arguments.text
                                       ? tokenizer.encode_markup(read_input(arguments.file, cancel))
                                       : read_ids(arguments.file, tokenizer, cancel);
  ReplyParser parser(tokenizer, options);
  OutputBuffer out;
  std::vector<ReplyDelta> deltas;
  for (const TokenId& id : ids) {
    parser.push(std::span(&id, 1), deltas);
    if (arguments.stream) print_deltas(deltas, out);
    deltas.clear();
  }
  const ReplyMessage message = parser.finish(arguments.cut ? EndedBy::kMaxTokens : EndedBy::kStop, deltas);
  if (arguments.stream) {
    print_deltas(deltas, out);
    out.add(dump({{"finish_reason", finish_reason_name(message.finish)}, {"notes", message.notes}}, -1));
  } else {
    out.add(dump(message_json(message), arguments.json ? -1 : 2));
  }
  out.flush();
}

}  // namespace

void register_parse(CLI::App& app, CommandContext& context) {
  CLI::App& command = *app.add_subcommand("parse", "Turn the ids of a reply into its message");
  const auto arguments = std::make_shared<ParseArguments>();
  command
      .add_option("FILE", arguments->file, "Ids of the reply, or with --text its text; - for standard input")
      ->default_str(kStandardInput);
  add_vocabulary_option(command, arguments->vocabulary);
  command.add_flag("--text", arguments->text, "The reply is text; special tokens in it are recognised");
  add_choice(command, "--start", arguments->start,
             {{"auto", StartChoice::kAuto},
              {"think", StartChoice::kThink},
              {"response", StartChoice::kResponse},
              {"idle", StartChoice::kIdle}},
             "Channel that the prompt left open; auto: that of --prompt, else think");
  command.add_option("--prompt", arguments->prompt_file, "File with the ids of the prompt")->type_name("IDS");
  command
      .add_option("--stop", arguments->stop,
                  "End the reply where this text appears in its content; repeatable")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  command.add_flag("--no-tools", arguments->no_tools,
                   "No tools were declared, or tool_choice was none: drop calls");
  command.add_flag("--cut", arguments->cut, "Generation was cut behind these ids, as by max_tokens");
  CLI::Option* stream = command.add_flag(
      "--stream", arguments->stream, "Print the deltas of a stream, one JSON object a line, the end last");
  command.add_flag("--json", arguments->json, "Print the message as one line of JSON")->excludes(stream);
  command.footer(kExamples);
  command.callback([arguments, &context] { run_parse(*arguments, context.cancel); });
}

}  // namespace perigee
