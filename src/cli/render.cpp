// perigee render: the prompt that the model sees for a conversation, as text, as segments, as ids.
#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "cli/byte_streams.h"
#include "cli/choice.h"
#include "cli/command.h"
#include "cli/text_table.h"
#include "cli/token_view.h"
#include "cli/vocabulary_option.h"
#include "proof/golden_request.h"
#include "serve/dialect.h"
#include "text/conversation_json.h"
#include "text/prompt.h"

namespace perigee {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kExamples = R"(Examples:
  echo '[{"role":"user","content":"Hi"}]' | perigee render -    the prompt, markup coloured on a terminal
  perigee render chat.json --segments                           one segment a line: kind, text, ids
  perigee render chat.json --text > prompt.txt                  exactly the prompt's text
  perigee render chat.json --ids | perigee tokenize --decode    the same from its ids
  perigee render chat.json --effort low --thinking on --json    for programs
MESSAGES is an array of messages or a request with messages, tools, tool_choice, response_format, thinking and
thinking_effort in OpenAI's shape. The size of an image is the width and height of its part or of its image_url object,
else an entry of the request's image_prompts, else that of the image itself (PNG, JPEG, WebP or GIF in a data URL), else
--image-size. Prompt tokens are what usage counts: the three ids that open the reply's channel are left out. Text of a
user that spells markup stays text: --segments shows which is which.)";

enum class EffortChoice { kRequest, kUnset, kLow, kHigh, kMax };
enum class ThinkingChoice { kRequest, kOn, kOff };

struct RenderArguments {
  std::string file;
  std::filesystem::path vocabulary;
  EffortChoice effort = EffortChoice::kRequest;
  ThinkingChoice thinking = ThinkingChoice::kRequest;
  std::optional<ImageSize> image_size;
  ColourChoice colours = ColourChoice::kAuto;
  bool no_generation = false;
  bool lenient = false;
  bool text = false, segments = false, ids = false, json = false;
};

struct Prompt {
  std::vector<Segment> segments;
  std::vector<std::vector<TokenId>> segment_ids;
  PromptIds ids;
  std::size_t prompt_tokens = 0;
};

std::optional<std::uint32_t> dimension(std::string_view text) {
  std::uint32_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || value == 0) return std::nullopt;
  return value;
}

ImageSize parse_image_size(const std::string& text) {
  const std::size_t x = std::min(text.find('x'), text.size());
  const auto width = dimension(std::string_view(text).substr(0, x));
  const auto height = dimension(std::string_view(text).substr(std::min(x + 1, text.size())));
  if (!width || !height) fail(ErrorCode::kUsage, "--image-size {}: must be pixels such as 640x480", text);
  return {*width, *height};
}

// "width" and "height" of a content part or of its image_url object.
std::optional<ImageSize> size_in(const JsonNode& node) {
  const JsonNode* width = node.find("width");
  const JsonNode* height = node.find("height");
  if (width == nullptr || height == nullptr) return std::nullopt;
  const auto w = dimension(width->literal), h = dimension(height->literal);
  if (!w || !h) return std::nullopt;
  return ImageSize{*w, *h};
}

// Where sizes of images come from, in the order that the help says.
class ImageSizes {
 public:
  ImageSizes(const JsonNode& request, std::optional<ImageSize> preset)
      : stated_(stated_image_sizes(request)), preset_(preset) {}

  ImageSize next(const std::string& url, const JsonNode& part, const std::string& param) {
    const std::size_t index = used_++;
    if (const auto size = size_in(part)) return *size;
    if (const JsonNode* image = part.find("image_url"); image != nullptr) {
      if (const auto size = size_in(*image)) return *size;
    }
    if (index < stated_.size()) return stated_[index];
    if (url.starts_with("data:")) return decode_images()(url, part, param);
    if (preset_) return *preset_;
    fail(ErrorCode::kUsage,
         "{} is an image without a size: send it in a data URL, give the part a width and a height, or all "
         "such images one with --image-size",
         param);
  }

 private:
  std::vector<ImageSize> stated_;
  std::optional<ImageSize> preset_;
  std::size_t used_ = 0;
};

void override_thinking(const RenderArguments& arguments, Conversation& conversation) {
  if (arguments.thinking != ThinkingChoice::kRequest) {
    conversation.thinking = arguments.thinking == ThinkingChoice::kOn;
  }
  switch (arguments.effort) {
    case EffortChoice::kRequest:
      return;
    case EffortChoice::kUnset:
      conversation.effort.reset();
      return;
    case EffortChoice::kLow:
      conversation.effort = Effort::kLow;
      return;
    case EffortChoice::kHigh:
      conversation.effort = Effort::kHigh;
      return;
    case EffortChoice::kMax:
      conversation.effort = Effort::kMax;
      return;
  }
}

Conversation read_request(const RenderArguments& arguments, const std::string& json) {
  const JsonTree tree = JsonTree::parse(json, input_name(arguments.file));
  ImageSizes sizes(tree.root(), arguments.image_size);
  ConversationRules rules;
  rules.lenient = arguments.lenient;
  rules.image_size = [&sizes](const std::string& url, const JsonNode& part, const std::string& param) {
    return sizes.next(url, part, param);
  };
  Conversation conversation = read_conversation(tree.root(), rules);
  override_thinking(arguments, conversation);
  return conversation;
}

bool opens_channel(const std::vector<Segment>& segments) {
  const std::size_t count = segments.size();
  const auto is_marker = [&](std::size_t from_end, Marker wanted) {
    const Marker* marker = std::get_if<Marker>(&segments[count - from_end]);
    return marker != nullptr && *marker == wanted;
  };
  return count >= kPendingPromptIds && is_marker(3, Marker::kOpen) && is_marker(1, Marker::kSep);
}

Prompt make_prompt(const RenderArguments& arguments, const std::string& json, const Tokenizer& tokenizer) {
  const PromptEncoder encoder(tokenizer);
  Prompt prompt;
  try {
    prompt.segments =
        build_prompt(read_request(arguments, json),
                     arguments.no_generation ? GenerationPrompt::kNone : GenerationPrompt::kOpen);
  } catch (const RequestError& error) {  // the file is at fault, not the command line
    fail(ErrorCode::kCorrupt, "{}: {}", input_name(arguments.file), error.what());
  }
  for (const Segment& segment : prompt.segments) {
    prompt.segment_ids.push_back(encoder.encode(std::span(&segment, 1)).ids);
  }
  prompt.ids = encoder.encode(prompt.segments);
  const std::size_t pending = opens_channel(prompt.segments) ? kPendingPromptIds : 0;
  prompt.prompt_tokens = prompt.ids.ids.size() - pending;
  return prompt;
}

const char* kind_name(const Segment& segment) {
  if (std::holds_alternative<Marker>(segment)) return "marker";
  return std::holds_alternative<ImageSize>(segment) ? "image" : "text";
}

std::string prompt_json(const Prompt& prompt) {
  Json segments = Json::array();
  for (std::size_t i = 0; i < prompt.segments.size(); ++i) {
    segments.push_back({{"kind", kind_name(prompt.segments[i])},
                        {"text", segment_text(prompt.segments[i])},
                        {"ids", prompt.segment_ids[i]}});
  }
  Json images = Json::array();
  for (const PromptIds::Image& image : prompt.ids.images) {
    images.push_back({{"pad", image.pad}, {"width", image.size.width}, {"height", image.size.height}});
  }
  const Json json = {{"text", prompt_text(prompt.segments)},
                     {"segments", segments},
                     {"ids", prompt.ids.ids},
                     {"prompt_tokens", prompt.prompt_tokens},
                     {"images", images}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string counts_text(const Prompt& prompt) {
  const std::size_t segments = prompt.segments.size(), ids = prompt.ids.ids.size();
  const std::size_t images = prompt.ids.images.size();
  std::string text = fmt::format("{} segment{}, {} id{}, {} prompt token{}", with_commas(segments),
                                 plural(segments), with_commas(ids), plural(ids),
                                 with_commas(prompt.prompt_tokens), plural(prompt.prompt_tokens));
  if (images > 0) {
    text += fmt::format(", {} image{} (before {} pad is repeated)", images, plural(images),
                        images == 1 ? "its" : "each");
  }
  return text + "\n";
}

// One line per segment.
void print_segments(const Prompt& prompt, bool colours, OutputBuffer& out) {
  for (std::size_t i = 0; i < prompt.segments.size(); ++i) {
    const bool structural = !std::holds_alternative<std::string>(prompt.segments[i]);
    out.add(fmt::format("{:<7} {}  {}\n", kind_name(prompt.segments[i]),
                        markup_text(visible_text(segment_text(prompt.segments[i])), colours && structural),
                        fmt::join(prompt.segment_ids[i], " ")));
  }
  out.add("\n" + counts_text(prompt));
}

// The text to read: a message begins on a line of its own, which the prompt itself does not have.
void print_readable(const Prompt& prompt, bool colours, OutputBuffer& out) {
  bool line_begins = true;
  for (const Segment& segment : prompt.segments) {
    const std::string text = harmless_text(segment_text(segment));
    out.add(std::holds_alternative<std::string>(segment) ? text : markup_text(text, colours));
    const Marker* marker = std::get_if<Marker>(&segment);
    line_begins = marker != nullptr && *marker == Marker::kEndOfMessage;
    if (line_begins) out.add("\n");
  }
  out.add((line_begins ? "\n" : "\n\n") + counts_text(prompt));
}

void run_render(const RenderArguments& arguments, const CancelToken& cancel) {
  const Tokenizer tokenizer = load_tokenizer(arguments.vocabulary);
  const Prompt prompt = make_prompt(arguments, read_input(arguments.file, cancel), tokenizer);
  OutputBuffer out;
  if (arguments.text) {
    out.add(prompt_text(prompt.segments));
  } else if (arguments.ids) {
    out.add(fmt::format("{}\n", fmt::join(prompt.ids.ids, " ")));
  } else if (arguments.json) {
    out.add(prompt_json(prompt));
  } else if (arguments.segments) {
    print_segments(prompt, use_colours(arguments.colours), out);
  } else {
    print_readable(prompt, use_colours(arguments.colours), out);
  }
  out.flush();
}

void add_view_options(CLI::App& command, RenderArguments& arguments) {
  CLI::Option* text =
      command.add_flag("--text", arguments.text, "Print exactly the prompt's text, nothing added")
          ->group("Output");
  CLI::Option* segments =
      command.add_flag("--segments", arguments.segments, "Print one segment a line: kind, text, ids")
          ->group("Output");
  CLI::Option* ids =
      command.add_flag("--ids", arguments.ids, "Print only the ids, on one line")->group("Output");
  CLI::Option* json =
      command.add_flag("--json", arguments.json, "Print JSON: text, segments, ids, prompt_tokens, images")
          ->group("Output");
  segments->excludes(text);
  ids->excludes(text)->excludes(segments);
  json->excludes(text)->excludes(segments)->excludes(ids);
  add_colour_option(command, arguments.colours);
}

}  // namespace

void register_render(CLI::App& app, CommandContext& context) {
  CLI::App& command = *app.add_subcommand("render", "Show the prompt that the model sees for a conversation");
  const auto arguments = std::make_shared<RenderArguments>();
  command
      .add_option("MESSAGES", arguments->file, "JSON file of messages or of a request; - for standard input")
      ->required();
  add_vocabulary_option(command, arguments->vocabulary);
  add_choice(command, "--effort", arguments->effort,
             {{"request", EffortChoice::kRequest},
              {"unset", EffortChoice::kUnset},
              {"low", EffortChoice::kLow},
              {"high", EffortChoice::kHigh},
              {"max", EffortChoice::kMax}},
             "Thinking effort; request: what the request says, else max; unset: no message about it");
  add_choice(
      command, "--thinking", arguments->thinking,
      {{"request", ThinkingChoice::kRequest}, {"on", ThinkingChoice::kOn}, {"off", ThinkingChoice::kOff}},
      "Whether the reply begins with thinking; request: what the request says, else on");
  command.add_flag("--no-generation", arguments->no_generation,
                   "Render the messages only, without opening a reply");
  command.add_flag("--lenient", arguments->lenient,
                   "Accept what the released encoder accepts and a server refuses, e.g. tool results without "
                   "tool_call_id");
  command
      .add_option_function<std::string>(
          "--image-size",
          [arguments](const std::string& text) { arguments->image_size = parse_image_size(text); },
          "Size in pixels of images that state none")
      ->type_name("WxH");
  add_view_options(command, *arguments);
  command.footer(kExamples);
  command.callback([arguments, &context] { run_render(*arguments, context.cancel); });
}

}  // namespace perigee
