// perigee run: one answer of a model, for people and for programs. What is generated is decided in
// cli/generation.h; here are options, the prompt and the forms of output.
#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/progress.h"
#include "cli/byte_streams.h"
#include "cli/choice.h"
#include "cli/command.h"
#include "cli/generation.h"
#include "cli/machine_cache.h"
#include "cli/reply_json.h"
#include "cli/reply_printer.h"
#include "cli/streaming_status.h"
#include "cli/token_view.h"
#include "text/chat_tokens.h"
#include "text/conversation_json.h"
#include "text/prompt.h"
#include "text/utf8.h"

namespace perigee {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kExamples = R"(Examples:
  perigee run -m CKPT -p "Why is the sky blue?"                the answer as it is made; thinking dimmed
  perigee run -m CKPT -p "2+2?" --effort low --greedy          think little, always the most likely token
  perigee run -m CKPT --messages chat.json --json              for programs: message, usage, timings, logits hash
  echo "Hello" | perigee run -m CKPT -p - | less               on a pipe only the content
  perigee run -m CKPT -p "Once upon a time" --raw              no frames: go on with a text of your own
MESSAGES is an array of messages or a request with messages, tools, thinking and so on, in OpenAI's shape; options win over
it. The same checkpoint, prompt, options and seed give the same answer and the same logits hash on every machine, whatever
--backend and --threads are. --raw recognises special tokens in TEXT and prints all that is generated.
Ctrl-C ends the answer where it is (exit status 130); a second one kills.)";

struct RunArguments {
  ModelOptions model;
  GenerationOptions generation;
  std::string prompt, messages_file, system;
  std::optional<Effort> effort;
  std::optional<bool> thinking;
  std::optional<bool> show_thinking;
  ColourChoice colours = ColourChoice::kAuto;
  bool raw = false, json = false, stream = true;
};

// Before the weights are loaded, because a mistake in it should not cost that time.
struct RunPrompt {
  std::vector<TokenId> ids;
  bool tools_allowed = false;
  std::size_t calls_so_far = 0;
};

Conversation conversation_of_text(const RunArguments& arguments, const std::string& text) {
  Conversation conversation;
  conversation.effort = Effort::kMax;  // as servers of K3 do
  const auto add = [&](Role role, const std::string& content) {
    Message message;
    message.role = role;
    message.content.push_back({content, std::nullopt});
    conversation.messages.push_back(std::move(message));
  };
  if (!arguments.system.empty()) add(Role::kSystem, arguments.system);
  add(Role::kUser, text);
  return conversation;
}

Conversation conversation_of_file(const std::string& file, const CancelToken& cancel) {
  const JsonTree tree = JsonTree::parse(read_input(file, cancel), input_name(file));
  ConversationRules rules;
  rules.image_size = [](const std::string&, const JsonNode&, const std::string& param) -> ImageSize {
    throw RequestError(param, fmt::format("{} is an image, and run reads text only; leave it out", param));
  };
  try {
    return read_conversation(tree.root(), rules);
  } catch (const RequestError& error) {  // the file is at fault, not the command line
    fail(ErrorCode::kCorrupt, "{}: {}", input_name(file), error.what());
  }
}

RunPrompt make_prompt(const RunArguments& arguments, const Tokenizer& tokenizer, const CancelToken& cancel) {
  const auto text = [&] {
    return arguments.prompt == kStandardInput ? read_input(kStandardInput, cancel) : arguments.prompt;
  };
  if (arguments.raw) return {tokenizer.encode_markup(text()), false, 0};
  Conversation conversation = arguments.messages_file.empty()
                                  ? conversation_of_text(arguments, text())
                                  : conversation_of_file(arguments.messages_file, cancel);
  if (arguments.effort) conversation.effort = arguments.effort;
  if (arguments.thinking) conversation.thinking = *arguments.thinking;
  RunPrompt prompt;
  prompt.ids = PromptEncoder(tokenizer).encode(build_prompt(conversation)).ids;
  prompt.tools_allowed = !conversation.tool_names.empty() && conversation.tool_choice != ToolChoice::kNone;
  for (const Message& message : conversation.messages) prompt.calls_so_far += message.calls.size();
  return prompt;
}

std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json completion_json(const RunArguments& arguments, const OpenModel& model, const Generation& generation,
                     std::size_t prompt_tokens, const char* object, const Json& choice) {
  const std::size_t completion = generation.generated();
  return {{"object", object},
          {"model", arguments.model.checkpoint.string()},
          {"choices", Json::array({choice})},
          {"usage",
           {{"prompt_tokens", prompt_tokens},
            {"completion_tokens", completion},
            {"total_tokens", prompt_tokens + completion}}},
          {"timings",
           {{"load_seconds", model.load_seconds()},
            {"prompt_seconds", generation.prompt_seconds},
            {"token_seconds", generation.token_seconds},
            {"tokens_per_second", generation.tokens_per_second()}}},
          {"backend",
           {{"name", model.backend()},
            {"threads", thread_count(arguments.model)},
            {"precision", precision_name(arguments.model.precision)}}},
          {"experts", experts_json(model.weights())},
          {"seed", generation.seed},
          {"interrupted", generation.interrupted},
          {"logits_hash", fmt::format("{:016x}", generation.logits_hash)}};
}

// On a terminal, behind the answer.
void print_summary(const OpenModel& model, const Generation& generation) {
  if (::isatty(STDERR_FILENO) == 0) return;
  std::fputs(
      fmt::format("\n{} prompt tokens in {}, {} tokens in {} ({:.1f}/s), {}\n", generation.prompt_ids,
                  format_duration(generation.prompt_seconds), generation.generated(),
                  format_duration(generation.token_seconds), generation.tokens_per_second(), model.backend())
          .c_str(),
      stderr);
  for (const std::string& line :
       {streaming_summary(model.weights()), decoding_summary(generation, known_disk_rate())}) {
    if (!line.empty()) std::fputs((line + "\n").c_str(), stderr);
  }
}

// `status` is stopped before the answer would be printed over it.
Generation run_raw(const RunArguments& arguments, const OpenModel& model, const Tokenizer& tokenizer,
                   RunPrompt prompt, StreamingStatus& status, const CancelToken& cancel) {
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  const bool whole = arguments.json || !arguments.stream;
  std::string text;
  Utf8Stream characters;
  const auto on_token = [&](TokenId id) {
    if (find_chat_tokens(tokenizer.vocabulary()).ends_reply(id)) return false;
    const std::size_t before = text.size();
    characters.push(tokenizer.decode_bytes({&id, 1}), text);
    if (!whole) {
      if (terminal) status.stop();
      const std::string piece = text.substr(before);
      write_output(terminal ? harmless_text(piece) : piece);
      std::fflush(stdout);
    }
    return true;
  };
  const std::size_t prompt_tokens = prompt.ids.size();
  Generation generation =
      generate(model, tokenizer, arguments.generation, {std::move(prompt.ids), std::nullopt},
               {.on_token = on_token, .on_prompt = {}}, cancel);
  status.stop();
  if (arguments.json) {
    const Json choice = {
        {"index", 0}, {"text", text}, {"finish_reason", generation.ended ? "stop" : "length"}};
    write_output(
        dump(completion_json(arguments, model, generation, prompt_tokens, "text_completion", choice)));
  } else {
    write_output((whole ? (terminal ? harmless_text(text) : text) : "") + "\n");
  }
  return generation;
}

Generation run_reply(const RunArguments& arguments, const OpenModel& model, const Tokenizer& tokenizer,
                     RunPrompt prompt, StreamingStatus& status, const CancelToken& cancel) {
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  ReplyPrinter printer({.terminal = terminal,
                        .colours = use_colours(arguments.colours),
                        .thinking = arguments.show_thinking.value_or(terminal)});
  std::vector<ReplyDelta> held;
  ReplyTask task;
  const std::size_t prompt_tokens = counted_prompt_tokens(prompt.ids, tokenizer.vocabulary());
  task.generation.prompt = std::move(prompt.ids);
  task.tools_allowed = prompt.tools_allowed;
  task.calls_so_far = prompt.calls_so_far;
  task.on_deltas = [&](std::span<const ReplyDelta> deltas) {
    if (arguments.json) return;
    if (arguments.stream) {
      if (terminal) status.stop();
      printer.print(deltas);
    } else {
      held.insert(held.end(), deltas.begin(), deltas.end());
    }
  };
  Reply reply = generate_reply(model, tokenizer, arguments.generation, std::move(task), cancel);
  status.stop();
  if (arguments.json) {
    const Json choice = {{"index", 0},
                         {"message", reply_message_json(reply.message)},
                         {"finish_reason", finish_reason_name(reply.message.finish)},
                         {"notes", reply.message.notes}};
    write_output(
        dump(completion_json(arguments, model, reply.generation, prompt_tokens, "chat.completion", choice)));
  } else {
    printer.print(held);
    printer.finish();
  }
  return std::move(reply.generation);
}

void check_arguments(const RunArguments& arguments) {
  if (arguments.prompt.empty() && arguments.messages_file.empty()) {
    fail(ErrorCode::kUsage, "nothing to answer: give a prompt with -p or a file with --messages");
  }
  check_sampling(arguments.generation.sampling);
}

void run_run(const RunArguments& arguments, const CancelToken& cancel) {
  check_arguments(arguments);
  const Tokenizer tokenizer = load_model_tokenizer(arguments.model);
  check_vocabulary_fits(tokenizer, load_config(arguments.model.checkpoint / "config.json"));
  RunPrompt prompt = make_prompt(arguments, tokenizer, cancel);
  const OpenModel model(arguments.model, cancel);
  StreamingStatus status(model.weights());
  const Generation generation =
      arguments.raw ? run_raw(arguments, model, tokenizer, std::move(prompt), status, cancel)
                    : run_reply(arguments, model, tokenizer, std::move(prompt), status, cancel);
  if (!arguments.json) print_summary(model, generation);
  if (generation.interrupted) cancel.check();
}

void add_prompt_options(CLI::App& command, RunArguments& arguments) {
  CLI::Option* prompt =
      command.add_option("-p,--prompt", arguments.prompt, "What the user says; - for standard input")
          ->type_name("TEXT");
  CLI::Option* messages = command
                              .add_option("--messages", arguments.messages_file,
                                          "JSON file of messages or of a request; - for standard input")
                              ->type_name("FILE")
                              ->excludes(prompt);
  CLI::Option* system =
      command.add_option("--system", arguments.system, "System message in front of the prompt")
          ->type_name("TEXT")
          ->excludes(messages);
  CLI::Option* effort = add_choice(command, "--effort", arguments.effort,
                                   {{"low", std::optional(Effort::kLow)},
                                    {"high", std::optional(Effort::kHigh)},
                                    {"max", std::optional(Effort::kMax)}},
                                   "How much to think [what the request says, else max]");
  CLI::Option* thinking = add_choice(command, "--thinking", arguments.thinking,
                                     {{"on", std::optional(true)}, {"off", std::optional(false)}},
                                     "Whether to think at all [what the request says, else on]");
  command
      .add_flag("--raw", arguments.raw, "No frames: TEXT is the whole prompt, all that follows is printed")
      ->excludes(messages)
      ->excludes(system)
      ->excludes(effort)
      ->excludes(thinking);
}

}  // namespace

void register_run(CLI::App& app, CommandContext& context) {
  CLI::App& command = *app.add_subcommand("run", "Let a model answer");
  const auto arguments = std::make_shared<RunArguments>();
  add_model_option(command, arguments->model);
  add_prompt_options(command, *arguments);
  add_generation_options(command, arguments->generation);
  command.add_flag("--stream,!--no-stream", arguments->stream,
                   "Print the answer as it is made [yes], or whole at its end");
  add_show_thinking_flag(command, arguments->show_thinking);
  command.add_flag("--json", arguments->json, "Print one JSON object: message, usage, timings, logits hash");
  add_model_vocabulary_option(command, arguments->model);
  add_backend_options(command, arguments->model);
  add_colour_option(command, arguments->colours);
  command.footer(kExamples);
  command.callback([arguments, &context] { run_run(*arguments, context.cancel); });
}

}  // namespace perigee
