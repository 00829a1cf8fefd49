// perigee chat: a conversation in the terminal, or line by line on a pipe. What a turn is, is
// cli/chat_session.h; here are the commands and what a person sees.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "cli/byte_streams.h"
#include "cli/chat_session.h"
#include "cli/choice.h"
#include "cli/command.h"
#include "cli/demo_tools.h"
#include "cli/machine_cache.h"
#include "cli/reply_printer.h"
#include "cli/signals.h"
#include "cli/streaming_status.h"
#include "cli/token_view.h"

namespace perigee {
namespace {

constexpr const char* kExamples = R"(Examples:
  perigee chat CKPT                              talk; Ctrl-C stops an answer, Ctrl-D or /quit ends
  perigee chat CKPT --effort low --greedy        think little, always the most likely token
  perigee chat CKPT < questions.txt              one question a line, one answer after the other
Commands: /help /effort low|high|max /thinking on|off /tools demo|off /save FILE /reset /quit
The model's state is kept from turn to turn, so that only what is new is computed.)";

constexpr const char* kHelp = R"(/effort low|high|max   how much to think
/thinking on|off       whether to think at all
/tools demo|off        give the model a calculator and a clock
/save FILE             write the conversation, as perigee run --messages reads it
/reset                 forget the conversation
/quit                  end
Ctrl-C stops an answer. A line that begins with two slashes is said with one.
)";

constexpr unsigned kMostRounds = 8;  // of tool calls in one turn

struct ChatArguments {
  ModelOptions model;
  GenerationOptions generation;
  std::string system;
  Effort effort = Effort::kMax;
  bool thinking = true;
  std::optional<bool> show_thinking;
  ColourChoice colours = ColourChoice::kAuto;
};

// Lines of standard input; the terminal's own editing is all there is.
class LineReader {
 public:
  explicit LineReader(const CancelToken& cancel) : cancel_(cancel) {}

  // Without its end; unset behind the last one.
  std::optional<std::string> next() {
    for (;;) {
      const std::size_t end = buffer_.find('\n');
      if (end != std::string::npos || (ended_ && !buffer_.empty())) {
        std::string line = buffer_.substr(0, end);
        buffer_.erase(0, end == std::string::npos ? end : end + 1);
        if (!line.empty() && line.back() == '\r') line.pop_back();
        return line;
      }
      if (ended_) return std::nullopt;
      read_more();
    }
  }

 private:
  void read_more() {
    wait_for_input(STDIN_FILENO, cancel_);
    std::array<char, 4096> piece;
    const ssize_t count = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (count > 0) buffer_.append(piece.data(), static_cast<std::size_t>(count));
    if (count == 0) ended_ = true;
    if (count < 0 && errno != EINTR && errno != EAGAIN) fail_errno(errno, "cannot read standard input");
  }

  const CancelToken& cancel_;
  std::string buffer_;
  bool ended_ = false;
};

class Chat {
 public:
  Chat(const ChatArguments& arguments, const OpenModel& model, const Tokenizer& tokenizer,
       const CancelToken& cancel)
      : arguments_(arguments),
        model_(model),
        cancel_(cancel),
        session_(model, tokenizer, arguments.generation),
        terminal_(::isatty(STDOUT_FILENO) != 0),
        asks_(terminal_ && ::isatty(STDIN_FILENO) != 0) {
    session_.set_system(arguments.system);
    session_.set_effort(arguments.effort);
    session_.set_thinking(arguments.thinking);
    session_.reset();
  }

  void run();

 private:
  // False: the chat is over.
  bool command(const std::string& line);
  void set_tools(const std::string& word);
  void save(const std::string& file) const;
  void turn(const std::string& text);
  Reply answer();
  void tell(const std::string& text) const {  // not a part of any answer
    std::fputs(text.c_str(), asks_ ? stdout : stderr);
  }

  const ChatArguments& arguments_;
  const OpenModel& model_;
  const CancelToken& cancel_;
  ChatSession session_;
  bool terminal_;
  bool asks_;  // a person sits there
  std::optional<double> disk_rate_ = known_disk_rate();
};

template <typename Value>
Value value_of_word(const std::string& command, const std::string& word,
                    const std::vector<std::pair<std::string, Value>>& words) {
  std::string accepted;
  for (const auto& [known, value] : words) {
    if (known == word) return value;
    accepted += (accepted.empty() ? "" : "|") + known;
  }
  fail(ErrorCode::kUsage, "{} must be followed by {}", command, accepted);
}

void Chat::set_tools(const std::string& word) {
  if (value_of_word<bool>("/tools", word, {{"demo", true}, {"off", false}})) {
    session_.set_tools(demo_tools_json(), demo_tool_names());
  } else {
    session_.set_tools("", {});
  }
}

void Chat::save(const std::string& file) const {
  if (file.empty()) fail(ErrorCode::kUsage, "/save must be followed by the name of a file");
  if (std::filesystem::exists(file)) fail(ErrorCode::kExists, "{} exists; choose another name", file);
  const auto replace = nlohmann::ordered_json::error_handler_t::replace;
  write_file_atomically(file, session_.request_json().dump(2, ' ', false, replace) + "\n");
}

bool Chat::command(const std::string& line) {
  const std::size_t blank = std::min(line.find(' '), line.size());
  const std::string name = line.substr(0, blank);
  const std::string rest = line.substr(std::min(line.find_first_not_of(' ', blank), line.size()));
  if (name == "/quit") return false;
  if (name == "/help") {
    tell(kHelp);
  } else if (name == "/effort") {
    session_.set_effort(value_of_word<Effort>(
        name, rest, {{"low", Effort::kLow}, {"high", Effort::kHigh}, {"max", Effort::kMax}}));
  } else if (name == "/thinking") {
    session_.set_thinking(value_of_word<bool>(name, rest, {{"on", true}, {"off", false}}));
  } else if (name == "/tools") {
    set_tools(rest);
  } else if (name == "/save") {
    save(rest);
  } else if (name == "/reset") {
    session_.reset();
  } else {
    fail(ErrorCode::kUsage, "there is no command {}; /help lists them", name);
  }
  return true;
}

Reply Chat::answer() {
  ReplyPrinter printer({.terminal = terminal_,
                        .colours = use_colours(arguments_.colours),
                        .thinking = arguments_.show_thinking.value_or(terminal_)});
  CancelToken stop;
  const InterruptScope scope(stop);
  std::optional<StreamingStatus> status;  // while nothing is printed yet
  if (terminal_) status.emplace(model_.weights());
  const auto print = [&](std::span<const ReplyDelta> deltas) {
    status.reset();
    printer.print(deltas);
  };
  Reply reply = session_.answer(print, stop);
  status.reset();
  printer.finish();
  if (::isatty(STDERR_FILENO) != 0) {
    const std::string summary = decoding_summary(reply.generation, disk_rate_);
    if (!summary.empty()) std::fputs(("(" + summary + ")\n").c_str(), stderr);
  }
  if (asks_ && reply.generation.interrupted) tell("(stopped)\n");
  return reply;
}

void Chat::turn(const std::string& text) {
  session_.add_user(text);
  for (unsigned round = 0;; ++round) {
    const Reply reply = answer();
    cancel_.check();
    if (reply.message.calls.empty() || reply.generation.interrupted || round == kMostRounds) return;
    for (const ReplyCall& call : reply.message.calls) {
      const std::string result = call_demo_tool(call);
      tell(fmt::format("{} gives {}\n", harmless_text(call.name), result));
      session_.add_result(call, result);
    }
  }
}

void Chat::run() {
  LineReader lines(cancel_);
  if (asks_) tell("/help lists the commands; Ctrl-C stops an answer; Ctrl-D ends.\n");
  for (;;) {
    if (asks_) write_output("\n> ");
    std::fflush(stdout);
    std::optional<std::string> line = lines.next();
    if (!line) return;
    if (line->find_first_not_of(" \t") == std::string::npos) continue;
    try {
      if (line->starts_with("//")) {
        turn(line->substr(1));
      } else if (line->starts_with("/")) {
        if (!command(*line)) return;
      } else {
        turn(*line);
      }
    } catch (const Error& error) {
      // A person can try something else; on a pipe nobody would notice.
      if (!asks_ || error.code() == ErrorCode::kInterrupted) throw;
      tell(fmt::format("error: {}\n", error.what()));
    }
  }
}

void run_chat(const ChatArguments& arguments, const CancelToken& cancel) {
  check_sampling(arguments.generation.sampling);
  const Tokenizer tokenizer = load_model_tokenizer(arguments.model);
  check_vocabulary_fits(tokenizer, load_config(arguments.model.checkpoint / "config.json"));
  const OpenModel model(arguments.model, cancel);
  Chat(arguments, model, tokenizer, cancel).run();
}

}  // namespace

void register_chat(CLI::App& app, CommandContext& context) {
  CLI::App& command = *app.add_subcommand("chat", "Talk with a model");
  const auto arguments = std::make_shared<ChatArguments>();
  add_model_option(command, arguments->model, "CKPT,-m,--model");
  command.add_option("--system", arguments->system, "System message of the conversation")->type_name("TEXT");
  add_choice(command, "--effort", arguments->effort,
             {{"low", Effort::kLow}, {"high", Effort::kHigh}, {"max", Effort::kMax}}, "How much to think");
  add_choice(command, "--thinking", arguments->thinking, {{"on", true}, {"off", false}},
             "Whether to think at all");
  add_generation_options(command, arguments->generation);
  add_show_thinking_flag(command, arguments->show_thinking);
  add_model_vocabulary_option(command, arguments->model);
  add_backend_options(command, arguments->model);
  add_colour_option(command, arguments->colours);
  command.footer(kExamples);
  command.callback([arguments, &context] { run_chat(*arguments, context.cancel); });
}

}  // namespace perigee
