// perigee logits: the float32 logits of given ids, and if wanted all inner values, as a safetensors file, to
// be compared with what another program computes.
#include <fmt/format.h>

#include <charconv>
#include <memory>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "cli/byte_streams.h"
#include "cli/command.h"
#include "cli/model_options.h"
#include "proof/recorded_run.h"
#include "text/json_tree.h"

namespace perigee {
namespace {

constexpr const char* kExamples = R"(Examples:
  echo '[984, 5, 6, 7]' > ids.json
  perigee logits -m CKPT --ids ids.json --out out.safetensors                  [4, vocabulary] float32
  perigee logits -m CKPT --ids ids.json --out out.safetensors --positions last   only what predicts the next token
  perigee logits -m CKPT --ids ids.json --out out.safetensors --inner --precision f32   every value on the way, too
IDS is a JSON array of token ids, or an object of names and arrays; then a tensor is called NAME.logits.
Inner values: layers.I.{attn_in,attn_out,ffn_in,ffn_out,prefix} of each attention and FFN part; expert_ids and
expert_weights; state and conv_{q,k,v} after the prompt; bank, final_in, final_normed.)";

struct LogitsArguments {
  ModelOptions model;
  std::string ids_file;
  std::filesystem::path out;
  std::string positions = "all";
  bool inner = false;
};

struct NamedPrompt {
  std::string prefix;  // of tensor names: "" or "NAME."
  std::vector<std::uint32_t> ids;
};

std::optional<std::uint32_t> parse_number(std::string_view text) {
  std::uint32_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::uint32_t> read_ids(const JsonNode& node, const std::string& where) {
  if (!node.is(JsonKind::kArray)) fail(ErrorCode::kCorrupt, "{}: must be an array of token ids", where);
  std::vector<std::uint32_t> ids;
  for (const JsonNode& item : node.items) {
    const std::optional<std::uint32_t> id = parse_number(item.literal);
    if (!id) fail(ErrorCode::kCorrupt, "{}[{}] is no token id: {}", where, ids.size(), item.literal);
    ids.push_back(*id);
  }
  return ids;
}

std::vector<NamedPrompt> read_prompts(const std::string& file, const CancelToken& cancel) {
  const std::string name = input_name(file);
  const JsonTree tree = JsonTree::parse(read_input(file, cancel), name);
  if (!tree.root().is(JsonKind::kObject)) return {{"", read_ids(tree.root(), name)}};
  std::vector<NamedPrompt> prompts;
  for (const JsonNode::Member& member : tree.root().members) {
    for (const NamedPrompt& other : prompts) {
      if (other.prefix == member.key + ".")
        fail(ErrorCode::kCorrupt, "{}: {} is there twice", name, member.key);
    }
    prompts.push_back({member.key + ".", read_ids(member.value, fmt::format("{}: {}", name, member.key))});
  }
  if (prompts.empty()) fail(ErrorCode::kCorrupt, "{}: holds no prompt", name);
  return prompts;
}

// Empty: all or last.
std::vector<std::size_t> parse_positions(const std::string& text) {
  std::vector<std::size_t> positions;
  if (text == "all" || text == "last") return positions;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::optional<std::uint32_t> position =
        parse_number(std::string_view(text).substr(begin, end - begin));
    if (!position)
      fail(ErrorCode::kUsage, "--positions {}: must be all, last or numbers such as 0,5,11", text);
    positions.push_back(*position);
    begin = end + 1;
  }
  return positions;
}

void keep_rows(RecordedValues& logits, const std::vector<std::size_t>& rows) {
  const std::size_t width = logits.shape[1];
  std::vector<float> kept;
  for (const std::size_t row : rows) {
    if (row >= logits.shape[0]) {
      fail(ErrorCode::kUsage, "--positions {}: the prompt has only {} tokens, counted from 0", row,
           logits.shape[0]);
    }
    const auto values = std::span(logits.values).subspan(row * width, width);
    kept.insert(kept.end(), values.begin(), values.end());
  }
  logits = {{rows.size(), width}, std::move(kept), false};
}

// Float32, expert ids int32.
void write_values(const std::filesystem::path& path, const std::map<std::string, RecordedValues>& values,
                  const std::map<std::string, std::string>& metadata) {
  std::vector<TensorInfo> tensors;
  std::vector<std::vector<std::int32_t>> integers;
  integers.reserve(values.size());  // the pieces point into it
  std::vector<std::span<const std::byte>> pieces(1);
  for (const auto& [name, recorded] : values) {
    TensorInfo tensor;
    tensor.name = name;
    tensor.dtype = recorded.integers ? DType::kI32 : DType::kF32;
    tensor.shape = recorded.shape;
    tensors.push_back(std::move(tensor));
    if (recorded.integers) {
      integers.emplace_back(recorded.values.begin(), recorded.values.end());
      pieces.push_back(std::as_bytes(std::span(integers.back())));
    } else {
      pieces.push_back(std::as_bytes(std::span(recorded.values)));
    }
  }
  assign_offsets(tensors);
  const std::string header = serialize_safetensors_header(tensors, metadata);
  pieces.front() = std::as_bytes(std::span(header));
  write_file_atomically(path, pieces);
}

void run_logits(const LogitsArguments& arguments, const CancelToken& cancel) {
  const std::vector<std::size_t> positions = parse_positions(arguments.positions);
  const std::vector<NamedPrompt> prompts = read_prompts(arguments.ids_file, cancel);
  const OpenModel model(arguments.model, cancel);
  RecordingOptions options;
  options.inner = arguments.inner;
  options.all_logits = arguments.positions != "last";
  std::map<std::string, RecordedValues> all;
  for (const NamedPrompt& prompt : prompts) {
    auto values = record_run(model.model(), prompt.ids, options, cancel);
    if (!positions.empty()) keep_rows(values.at("logits"), positions);
    for (auto& [name, recorded] : values) all[prompt.prefix + name] = std::move(recorded);
  }
  write_values(arguments.out, all,
               {{"backend", model.backend()}, {"precision", precision_name(arguments.model.precision)}});
}

}  // namespace

void register_logits(CLI::App& app, CommandContext& context) {
  CLI::App& command = *app.add_subcommand("logits", "Write the logits of given token ids to a file");
  const auto arguments = std::make_shared<LogitsArguments>();
  add_model_option(command, arguments->model);
  command.add_option("--ids", arguments->ids_file, "JSON file of token ids; - for standard input")
      ->type_name("FILE")
      ->required();
  command.add_option("--out", arguments->out, "Safetensors file to write; replaced whole")
      ->type_name("FILE")
      ->required();
  command
      .add_option("--positions", arguments->positions,
                  "Whose logits: all, last, or numbers such as 0,5,11; inner values are of all")
      ->capture_default_str();
  command.add_flag("--inner", arguments->inner, "Write the values on the way, too");
  add_backend_options(command, arguments->model);
  command.footer(kExamples);
  command.callback([arguments, &context] { run_logits(*arguments, context.cancel); });
}

}  // namespace perigee
