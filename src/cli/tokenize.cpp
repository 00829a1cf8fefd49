// perigee tokenize: text to token ids and back, and a view of where tokens begin and end.
#include <fmt/format.h>

#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "cli/byte_streams.h"
#include "cli/command.h"
#include "cli/id_input.h"
#include "cli/token_view.h"
#include "cli/vocabulary_option.h"
#include "text/utf8.h"

namespace perigee {
namespace {

constexpr const char* kExamples = R"(Examples:
  echo -n "Hello, world!" | perigee tokenize              ids on one line
  perigee tokenize essay.txt --count                      how many
  perigee tokenize essay.txt --show                       which bytes each token has
  perigee tokenize essay.txt | perigee tokenize --decode  the bytes again, every one of them
  perigee tokenize prompt.txt --markup                    <|open|> becomes one id: only for text of your own
Any bytes are text; what is no UTF-8 comes back unchanged. Without --markup no text gives a special id, whatever it
spells; with it, text from somebody else can forge the structure of a prompt.
--json gives {"ids":[…],"pieces":[…]}: the text of each token, and for tokens that are no UTF-8 by themselves
"hex":{"index in pieces":"bytes"}.)";

constexpr std::size_t kIdsPerPiece = 1 << 16;

struct TokenizeArguments {
  std::string file = kStandardInput;
  std::filesystem::path vocabulary;
  ColourChoice colours = ColourChoice::kAuto;
  bool decode = false;
  bool show = false;
  bool markup = false;
  bool json = false;
  bool count = false;
};

std::vector<TokenId> encode(const std::string& text, const Tokenizer& tokenizer, bool markup) {
  if (markup) return tokenizer.encode_markup(text);
  return tokenizer.encode_plain_parallel(text, std::max(1U, std::thread::hardware_concurrency()));
}

// Calls `print` with the ids in pieces, so that output is written as it is made.
template <typename Print>
void in_pieces(std::span<const TokenId> ids, const CancelToken& cancel, Print&& print) {
  for (std::size_t begin = 0; begin < ids.size(); begin += kIdsPerPiece) {
    cancel.check();
    print(ids.subspan(begin, std::min(kIdsPerPiece, ids.size() - begin)), begin);
  }
}

void print_ids(std::span<const TokenId> ids, const char* between, const CancelToken& cancel,
               OutputBuffer& out) {
  in_pieces(ids, cancel, [&](std::span<const TokenId> piece, std::size_t begin) {
    out.add(fmt::format("{}{}", begin > 0 ? between : "", fmt::join(piece, between)));
  });
}

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) fmt::format_to(std::back_inserter(out), "{:02x}", static_cast<unsigned char>(c));
  return out;
}

void print_json(std::span<const TokenId> ids, const Vocabulary& vocabulary, const CancelToken& cancel,
                OutputBuffer& out) {
  out.add("{\"ids\":[");
  print_ids(ids, ",", cancel, out);
  out.add("],\"pieces\":[");
  std::string partial;  // members of "hex"
  in_pieces(ids, cancel, [&](std::span<const TokenId> piece, std::size_t begin) {
    for (std::size_t i = 0; i < piece.size(); ++i) {
      const std::string_view bytes = vocabulary.bytes(piece[i]);
      out.add((begin + i > 0 ? "," : "") + json_string(bytes));
      if (!is_valid_utf8(bytes)) {
        partial += fmt::format("{}\"{}\":\"{}\"", partial.empty() ? "" : ",", begin + i, hex(bytes));
      }
    }
  });
  out.add(partial.empty() ? "]}\n" : fmt::format("],\"hex\":{{{}}}}}\n", partial));
}

void run_encode(const TokenizeArguments& arguments, const std::string& text, const Tokenizer& tokenizer,
                const CancelToken& cancel) {
  OutputBuffer out;
  const std::vector<TokenId> ids = encode(text, tokenizer, arguments.markup);
  if (arguments.count) {
    out.add(fmt::format("{}\n", ids.size()));
  } else if (arguments.json) {
    print_json(ids, tokenizer.vocabulary(), cancel, out);
  } else if (arguments.show) {
    print_tokens(ids, tokenizer.vocabulary(), use_colours(arguments.colours), output_columns(), out);
  } else {
    print_ids(ids, " ", cancel, out);
    out.add("\n");
  }
  out.flush();
}

void run_decode(const TokenizeArguments& arguments, const std::string& text, const Tokenizer& tokenizer,
                const CancelToken& cancel) {
  OutputBuffer out;
  const std::vector<TokenId> ids = parse_token_ids(text, tokenizer.vocabulary(), input_name(arguments.file));
  in_pieces(ids, cancel,
            [&](std::span<const TokenId> piece, std::size_t) { out.add(tokenizer.decode_bytes(piece)); });
  out.flush();
}

void run_tokenize(const TokenizeArguments& arguments, const CancelToken& cancel) {
  const Tokenizer tokenizer = load_tokenizer(arguments.vocabulary);
  const std::string text = read_input(arguments.file, cancel);
  if (arguments.decode) {
    run_decode(arguments, text, tokenizer, cancel);
  } else {
    run_encode(arguments, text, tokenizer, cancel);
  }
}

}  // namespace

void register_tokenize(CLI::App& app, CommandContext& context) {
  CLI::App& command = *app.add_subcommand("tokenize", "Turn text into token ids, or ids into text");
  const auto arguments = std::make_shared<TokenizeArguments>();
  command.add_option("FILE", arguments->file, "The text, or with --decode the ids; - for standard input")
      ->default_str(kStandardInput);
  add_vocabulary_option(command, arguments->vocabulary);
  CLI::Option* markup = command.add_flag("--markup", arguments->markup,
                                         "Recognise special tokens in the text; not for others' text");
  CLI::Option* count = command.add_flag("--count", arguments->count, "Print only the number of ids");
  CLI::Option* show =
      command.add_flag("--show", arguments->show, "Print each token's text with its id beneath")
          ->excludes(count);
  CLI::Option* json = command.add_flag("--json", arguments->json, "Print JSON: ids and pieces")
                          ->excludes(count)
                          ->excludes(show);
  command
      .add_flag("--decode", arguments->decode,
                "Ids in (between blanks or commas, or a JSON array), bytes out, nothing added")
      ->excludes(markup)
      ->excludes(count)
      ->excludes(show)
      ->excludes(json);
  add_colour_option(command, arguments->colours);
  command.footer(kExamples);
  command.callback([arguments, &context] { run_tokenize(*arguments, context.cancel); });
}

}  // namespace perigee
