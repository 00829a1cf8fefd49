#include "proof/logits_parity.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "engine/engine.h"
#include "proof/distances.h"
#include "proof/golden_values.h"
#include "proof/module_parity.h"
#include "proof/patched_checkpoint.h"
#include "proof/recorded_run.h"

namespace perigee {
namespace {

// The released code, run token by token instead of at once, differs from itself by 1.3e-5 over all logits and
// by up to 7e-5 in a row of a long prompt.
constexpr DistanceBound kRowBound{3e-4, 3e-5};
constexpr DistanceBound kInnerBound{2e-5, 0};
constexpr DistanceBound kLongStateBound{3e-5, 0};
constexpr DistanceBound kNoneBound{0, 0};
// bf16 logits, as a multiple of how far the released code's own bf16 and f32 are apart in the same row.
constexpr DistanceBound kSteadyBound{2, 1.2};
// A choice between two tokens that are nearer than this may go either way.
constexpr double kClearMargin = 1e-3;

constexpr float kMostPatches = 65536;  // of an image

constexpr std::string_view kF32 = "f32.", kBf16 = "bf16.", kSteady = "steady.";

using Values = std::map<std::string, RecordedValues>;

class LogitsCheck {
 public:
  LogitsCheck(const std::filesystem::path& folder, const MakeOps& make_ops, const CancelToken& cancel)
      : folder_(folder), golden_(folder), make_ops_(make_ops), cancel_(cancel) {}

  LogitsParity run();

 private:
  void check_prompts(const LoadedModel& weights);
  void check_value(const std::string& prompt, const std::string& name, const Values& found);
  void check_greedy(const LoadedModel& weights);
  void check_images(const LoadedModel& weights);
  void check_steady();
  void steady_logits(const LoadedModel& weights, const std::string& prompt);
  void compare_rows(const std::string& what, DistanceBound bound, const std::string& key,
                    const RecordedValues& found, const std::string& prompt);
  std::vector<std::string> names_under(const std::string& prefix) const;
  // Of the prompt, the positions whose rows were recorded.
  std::vector<std::size_t> positions(const std::string& prompt, std::uint64_t rows) const;
  GoldenTensor expected(const std::string& key) {
    used_.insert(key);
    return golden_.tensor(key);
  }
  std::vector<TokenId> prompt_ids(const std::string& prompt) const {
    return golden_.json().object("prompts").ids(prompt);
  }
  std::vector<std::string> prompts() const;
  [[noreturn]] void fail_shape(const std::string& key) const {
    fail(ErrorCode::kCorrupt, "{}: {} has another shape than the model's value", folder_.string(), key);
  }

  const std::filesystem::path folder_;
  const GoldenValues golden_;
  const MakeOps& make_ops_;
  const CancelToken& cancel_;
  Distances distances_;
  std::set<std::string> used_;
};

std::vector<std::string> LogitsCheck::prompts() const {
  return golden_.json().object("prompts").fields();
}

std::vector<std::string> LogitsCheck::names_under(const std::string& prefix) const {
  std::vector<std::string> names;
  for (const std::string& key : golden_.names()) {
    if (key.starts_with(prefix)) names.push_back(key.substr(prefix.size()));
  }
  return names;
}

std::vector<std::size_t> LogitsCheck::positions(const std::string& prompt, std::uint64_t rows) const {
  const std::vector<TokenId> recorded = golden_.json().object("logit_rows").ids(prompt);
  const std::size_t tokens = prompt_ids(prompt).size();
  if (recorded.size() != rows)
    fail(ErrorCode::kCorrupt, "golden.json: logit_rows of {} are not those of its values", prompt);
  for (const TokenId position : recorded) {
    if (position >= tokens)
      fail(ErrorCode::kCorrupt, "golden.json: logit_rows of {} goes beyond its {} ids", prompt, tokens);
  }
  return {recorded.begin(), recorded.end()};
}

void LogitsCheck::compare_rows(const std::string& what, DistanceBound bound, const std::string& key,
                               const RecordedValues& found, const std::string& prompt) {
  const GoldenTensor recorded = expected(key);
  const std::size_t width = recorded.row_size();
  if (width != found.values.size() / found.shape[0]) fail_shape(key);
  const std::vector<std::size_t> rows = positions(prompt, recorded.rows());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    distances_.add(what, bound, relative_l2(found.values.data() + rows[i] * width, recorded.row(i), width),
                   fmt::format("{} position {}", key, rows[i]));
  }
}

std::size_t differing(const std::vector<float>& found, const std::vector<float>& recorded) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < found.size(); ++i) count += found[i] != recorded[i] ? 1 : 0;
  return count;
}

// "layers.3.attn_in" -> "attn_in"
std::string kind_of(const std::string& name) {
  return name.substr(name.rfind('.') + 1);
}

void LogitsCheck::check_value(const std::string& prompt, const std::string& name, const Values& found) {
  const std::string key = fmt::format("{}{}.{}", kF32, prompt, name);
  const auto value = found.find(name);
  if (value == found.end()) return;  // told as not compared
  if (name == "logits") return compare_rows("f32 logits", kRowBound, key, value->second, prompt);
  const GoldenTensor recorded = golden_.tensor(key);
  // Every token's values, or those of a few: a prompt is recorded whole if the input of the final norm is.
  const bool whole = golden_.has(fmt::format("{}{}.final_in", kF32, prompt));
  const bool after_prompt = name.ends_with(".state") || name.find(".conv_") != std::string::npos;
  const std::string kind = kind_of(name);
  if (!whole && !after_prompt)
    return compare_rows(fmt::format("f32 {} at some positions", kind), kRowBound, key, value->second, prompt);
  if (recorded.values.size() != value->second.values.size()) fail_shape(key);
  used_.insert(key);
  if (value->second.integers) {
    distances_.add("f32 " + kind + " that differ", kNoneBound,
                   static_cast<double>(differing(value->second.values, recorded.values)), key);
  } else {
    distances_.add(fmt::format("f32 {}{}", kind, whole ? "" : " after a long prompt"),
                   whole ? kInnerBound : kLongStateBound,
                   relative_l2(value->second.values.data(), recorded.values.data(), recorded.values.size()),
                   key);
  }
}

void LogitsCheck::check_prompts(const LoadedModel& weights) {
  const std::unique_ptr<Ops> ops = make_ops_(Precision::kF32);
  const Model model(weights, *ops);
  for (const std::string& prompt : prompts()) {
    const std::vector<std::string> names = names_under(fmt::format("{}{}.", kF32, prompt));
    if (names.empty()) continue;
    RecordingOptions options;
    options.inner = true;
    const Values found = record_run(model, prompt_ids(prompt), options, cancel_);
    for (const std::string& name : names) check_value(prompt, name, found);
  }
}

// Ids up to the first step at which the released code was undecided.
void LogitsCheck::check_greedy(const LoadedModel& weights) {
  if (!golden_.json().has("greedy")) return;
  const std::unique_ptr<Ops> ops = make_ops_(Precision::kF32);
  const Model model(weights, *ops);
  const Golden greedy = golden_.json().object("greedy");
  for (const std::string& prompt : prompts()) {
    const std::string key = std::string(kF32) + prompt;
    if (!greedy.has(key)) continue;
    const std::vector<TokenId> ids = greedy.object(key).ids("ids");
    const std::vector<double> margins = greedy.object(key).reals("margins");
    if (ids.empty() || margins.size() != ids.size())
      fail(ErrorCode::kCorrupt, "{} must have as many margins as ids", greedy.object(key).place());
    GenerationRequest request;
    request.prompt = prompt_ids(prompt);
    request.sampling.temperature = 0;
    request.max_tokens = ids.size();
    Sequence sequence(weights.config(), std::move(request));
    Engine(model, {}).run(sequence, {}, {}, cancel_);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < ids.size() && margins[i] >= kClearMargin; ++i)
      wrong += sequence.generated()[i].chosen.id != ids[i] ? 1 : 0;
    distances_.add("f32 greedy ids that differ", kNoneBound, static_cast<double>(wrong), key);
  }
}

struct ImagePrompt {
  std::vector<TokenId> ids;
  std::vector<std::size_t> places;  // of the embeddings
};

// Every placeholder is repeated once for each embedding of its image.
ImagePrompt expand_images(const std::vector<TokenId>& ids, TokenId placeholder, const GoldenTensor& grids,
                          std::uint64_t merged) {
  ImagePrompt prompt;
  std::uint64_t image = 0;
  for (const TokenId id : ids) {
    std::uint64_t copies = 1;
    if (id == placeholder) {
      if (image >= grids.rows() || grids.row_size() != 3)
        fail(ErrorCode::kCorrupt, "image.grid_thw must have a row of three for every placeholder");
      const float* grid = grids.row(image++);
      const float patches = grid[0] * grid[1] * grid[2];
      if (!(patches >= 0 && patches <= kMostPatches))
        fail(ErrorCode::kCorrupt, "image.grid_thw has an image of {} patches", patches);
      copies = static_cast<std::uint64_t>(patches) / merged;
    }
    for (; copies > 0; --copies) {
      if (id == placeholder) prompt.places.push_back(prompt.ids.size());
      prompt.ids.push_back(id);
    }
  }
  return prompt;
}

void LogitsCheck::check_images(const LoadedModel& weights) {
  const std::string key = std::string(kF32) + "image.logits";
  if (!golden_.has(key)) return;
  const GoldenTensor recorded = expected(key);
  const GoldenTensor features = expected(std::string(kF32) + "image.features");
  const VisionConfig& vision = weights.config().vision;
  const GoldenFile config = GoldenFile::read(folder_ / "config.json");
  const ImagePrompt prompt =
      expand_images(golden_.json().ids("image_prompt"),
                    static_cast<TokenId>(config.root().number("media_placeholder_token_id")),
                    expected("image.grid_thw"), vision.merge_height * vision.merge_width);
  const std::size_t vocabulary = weights.config().vocab_size;
  if (prompt.places.size() != features.rows() || features.row_size() != weights.config().hidden_size)
    fail_shape(std::string(kF32) + "image.features");
  if (prompt.ids.size() != recorded.rows() || recorded.row_size() != vocabulary) fail_shape(key);
  RecordingOptions options;
  for (std::size_t i = 0; i < prompt.places.size(); ++i)
    options.embeddings.emplace_back(prompt.places[i], features.row(i));
  const std::unique_ptr<Ops> ops = make_ops_(Precision::kF32);
  const Values found = record_run(Model(weights, *ops), prompt.ids, options, cancel_);
  const float* logits = found.at("logits").values.data();
  for (std::size_t t = 0; t < prompt.ids.size(); ++t) {
    distances_.add("f32 logits with images", kRowBound,
                   relative_l2(logits + t * vocabulary, recorded.row(t), vocabulary),
                   fmt::format("{} position {}", key, t));
  }
}

void LogitsCheck::steady_logits(const LoadedModel& weights, const std::string& prompt) {
  for (const Precision precision : {Precision::kF32, Precision::kBf16}) {
    const bool f32 = precision == Precision::kF32;
    const std::string key = fmt::format("{}{}{}.logits", f32 ? kF32 : kBf16, kSteady, prompt);
    if (!golden_.has(key)) continue;
    const std::unique_ptr<Ops> ops = make_ops_(precision);
    const RecordedValues found =
        record_run(Model(weights, *ops), prompt_ids(prompt), {}, cancel_).at("logits");
    if (f32) {
      compare_rows("f32 logits, steady routing", kRowBound, key, found, prompt);
      continue;
    }
    const GoldenTensor recorded = expected(key);
    const std::size_t width = weights.config().vocab_size;
    const std::vector<std::size_t> rows = positions(prompt, recorded.rows());
    const std::vector<double> noise = golden_.json().object("steady_bf16_rel_rmse").reals(prompt);
    if (recorded.row_size() != width || noise.size() != rows.size()) fail_shape(key);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double distance = relative_l2(found.values.data() + rows[i] * width, recorded.row(i), width);
      distances_.add("bf16 logits, steady routing, in units of rounding", kSteadyBound, distance / noise[i],
                     fmt::format("{} position {}", key, rows[i]));
    }
  }
}

void LogitsCheck::check_steady() {
  std::map<std::string, std::vector<float>> biases;
  for (const std::string& name : names_under(std::string(kSteady)))
    biases[name] = expected(std::string(kSteady) + name).values;
  if (biases.empty()) return;
  const PatchedCheckpoint steady(folder_, biases);
  const LoadedModel weights = LoadedModel::load(steady.folder(), {});
  for (const std::string& prompt : prompts()) steady_logits(weights, prompt);
}

LogitsParity LogitsCheck::run() {
  const LoadedModel weights = LoadedModel::load(folder_, {});
  check_prompts(weights);
  check_greedy(weights);
  check_images(weights);
  const std::unique_ptr<Ops> bf16 = make_ops_(Precision::kBf16);
  for (const std::string& prompt : prompts()) {
    const std::string prefix = fmt::format("{}{}.", kBf16, prompt);
    if (golden_.has(prefix + "final_in")) check_modules(weights, *bf16, golden_, prefix, distances_, used_);
  }
  check_steady();
  LogitsParity parity{distances_.rows(), {}};
  for (const std::string& name : golden_.names()) {
    if (!used_.contains(name)) parity.not_compared.push_back(name);
  }
  return parity;
}

}  // namespace

bool LogitsParity::ok() const {
  return !rows.empty() && std::all_of(rows.begin(), rows.end(), [](const auto& row) { return row.ok(); });
}

LogitsParity check_logits_parity(const std::filesystem::path& folder, const MakeOps& make_ops,
                                 const CancelToken& cancel) {
  return LogitsCheck(folder, make_ops, cancel).run();
}

}  // namespace perigee
