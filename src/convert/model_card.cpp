#include "convert/model_card.h"

#include <fmt/format.h>

#include <iterator>
#include <string_view>

#include "base/version.h"
#include "convert/target_layout.h"

namespace perigee {
namespace {

// 1,645,946,964,992
std::string grouped(std::uint64_t value) {
  const std::string digits = std::to_string(value);
  std::string result;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i != 0 && (digits.size() - i) % 3 == 0) result += ',';
    result += digits[i];
  }
  return result;
}

// One line without the characters that mean something in YAML strings, Markdown code or a shell.
std::string plain(const std::string& text) {
  std::string result;
  for (const char byte : text.substr(0, 200)) {
    const auto code = static_cast<unsigned char>(byte);
    const bool special =
        code < 0x20 || code == 0x7f || std::string_view("\"\\`$<>|*[]'").find(byte) != std::string_view::npos;
    result += special ? '?' : byte;
  }
  return result;
}

class Card {
 public:
  Card(const ConversionReport& report, const ModelCardContext& context)
      : report_(report),
        context_(context),
        layout_(parse_layout(report.layout)),
        activations_(parse_activations(report.activations)) {}

  std::string write() {
    front_matter();
    introduction();
    engines();
    losses();
    run_time();
    proof();
    reproduction();
    return std::move(text_);
  }

 private:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '\n';
  }

  bool is_nvfp4() const { return layout_ != Layout::kMxfp4; }
  bool was_cast_from_mxfp4() const {
    const auto cast = report_.modules_by_action.find("cast");
    return is_nvfp4() && cast != report_.modules_by_action.end() && cast->second == report_.modules;
  }
  std::string model_name() const {
    const std::size_t slash = context_.base_model.rfind('/');
    return plain(slash == std::string::npos ? context_.base_model : context_.base_model.substr(slash + 1));
  }

  void front_matter() {
    line("---");
    line("license: other");
    if (!context_.license_file.empty()) line("license_link: \"{}\"", plain(context_.license_file));
    line("base_model: \"{}\"", plain(context_.base_model));
    line("base_model_relation: quantized");
    line("tags:");
    line("- {}", is_nvfp4() ? "nvfp4" : "mxfp4");
    line("- {}", layout_name(layout_));
    line("---");
  }

  void introduction() {
    line("");
    line("# {} {} ({})", model_name(), is_nvfp4() ? "NVFP4" : "MXFP4", layout_name(layout_));
    line("");
    if (report_.partial) {
      line(
          "**This is an incomplete checkpoint**: only some shards of the source were converted. It cannot be "
          "served.");
      line("");
    }
    line("Converted by Perigee {} from `{}` ({}).", kVersion, plain(report_.source_name),
         report_.source_format);
    if (!context_.source_revision.empty()) line("Source revision: `{}`.", plain(context_.source_revision));
    line("");
    line("| | |");
    line("|---|---|");
    line("| method | {} |", report_.method);
    line("| activation scales | {} |", activations_name(activations_));
    line("| shards | {} |", grouped(report_.shards));
    line("| tensors | {} |", grouped(report_.tensors));
    line("| tensor bytes | {} |", grouped(report_.total_size));
    line("| file bytes, source | {} |", grouped(report_.source_file_bytes));
    line("| file bytes, here | {} |", grouped(report_.output_file_bytes));
    line("| expert matrices | {} |", grouped(report_.modules));
    if (report_.fp8_tensors != 0) line("| attention matrices in FP8 | {} |", grouped(report_.fp8_tensors));
    error_line("rounding of experts", report_.expert_error);
    error_line("rounding of attention", report_.fp8_error);
    line("");
    line("Only the routed experts{} were converted. Every other tensor has the source's bytes.",
         layout_ == Layout::kNvidiaMixed ? " and the attention projections" : "");
  }

  // As the verifier measured it on every weight that was rounded; absent where nothing was measured.
  void error_line(const char* what, const ErrorSums& error) {
    if (error.elements == 0) return;
    line("| {} | relative RMSE {:.6f}, cosine {:.8f}, over {} weights |", what, error.relative_rmse(),
         error.cosine(), grouped(error.elements));
  }

  void engines() {
    line("");
    line("## Engines");
    line("");
    switch (layout_) {
      case Layout::kModelOpt:
        return modelopt_engines();
      case Layout::kCompressedTensors:
        return compressed_tensors_engines();
      case Layout::kNvidiaMixed:
        return mixed_engines();
      case Layout::kMxfp4:
        line("The released form: engines that load {} load this.", plain(context_.base_model));
    }
  }

  void modelopt_engines() {
    if (activations_ == Activations::kNone) {
      line(
          "vLLM: loads as `W4A16_NVFP4`, weight-only. SGLang refuses this algorithm at the top level; "
          "convert with "
          "`--activations placeholder` for it.");
    } else {
      line(
          "vLLM and SGLang: load as ModelOpt `NVFP4`. The input scales are the constant 1.0, not "
          "calibrated.");
    }
  }

  void compressed_tensors_engines() {
    line(
        "vLLM: loads as compressed-tensors `nvfp4-pack-quantized`; fused modules of this model need a "
        "version later "
        "than 0.26.0. SGLang: only versions with a weight-only NVFP4 path for mixtures of experts.");
    if (activations_ == Activations::kPlaceholder) {
      line("The input scales are the constant 1.0, not calibrated.");
    }
  }

  void mixed_engines() {
    line(
        "SGLang and vLLM: load as ModelOpt `MIXED_PRECISION`; the version must know the algorithm "
        "`FP8_PB_WO` for "
        "linear layers, or it reads FP8 bytes as BF16. In SGLang on Blackwell choose "
        "`--moe-runner-backend flashinfer_trtllm`.");
  }

  void losses() {
    line("");
    line("## What changed in value");
    line("");
    if (report_.lossless()) {
      line("Nothing. All {} blocks of 32 weights have exactly the source's values.", grouped(report_.groups));
    } else if (report_.groups_kept == report_.groups) {
      line("The experts are exact: all {} blocks of 32 weights have the source's values.",
           grouped(report_.groups));
    } else {
      line("{} of {} blocks of 32 weights have exactly the source's values; the others were rounded.",
           grouped(report_.groups_kept), grouped(report_.groups));
    }
    if (report_.fp8_tensors != 0) {
      line("{} attention matrices were rounded from BF16 to FP8 with one scale for each tile of 128 x 128.",
           grouped(report_.fp8_tensors));
    }
    if (report_.modules_by_action.empty()) return;
    line("");
    line("| treatment | expert matrices |");
    line("|---|---|");
    for (const auto& [action, count] : report_.modules_by_action) line("| {} | {} |", action, grouped(count));
    if (report_.over_span_groups != 0) {
      line("");
      line(
          "{} blocks lie more than 17 binades below the largest of their tensor, which NVFP4 cannot express.",
          grouped(report_.over_span_groups));
    }
  }

  // What the file holds and what a kernel computes with are different things.
  void run_time() {
    if (!is_nvfp4()) return;
    line("");
    line("## At run time");
    line("");
    if (was_cast_from_mxfp4()) {
      line(
          "Marlin kernels read block scales below 2^-6, that is of blocks more than 14 binades below the "
          "largest of "
          "their tensor, as zero. {} of this checkpoint.",
          report_.marlin_unsafe_blocks == 0
              ? std::string("That affects no block")
              : "That affects " + grouped(report_.marlin_unsafe_blocks) + " blocks of 16 weights");
    }
    if (activations_ == Activations::kPlaceholder) {
      line(
          "With input scales present, engines on Blackwell may round activations to FP4. For BF16 "
          "activations choose "
          "the Marlin backend, or a checkpoint made with `--activations none`.");
    } else {
      line("There are no input scales: activations stay in BF16.");
    }
  }

  void proof() {
    line("");
    line("## How this was checked");
    line("");
    if (report_.verification == "full") {
      line(
          "Each shard was read back from disk after writing and compared with the source, every block and "
          "every "
          "byte, by a second implementation.");
    } else if (report_.verification == "sample") {
      line("A sample of each shard was read back from disk and compared with the source.");
    } else {
      line("Not at all: verification was turned off.");
    }
    line("`conversion_report.json` holds the counts and the SHA-256 of every shard.");
  }

  void reproduction() {
    line("");
    line("## Reproduce");
    line("");
    line("```");
    const std::string options = fmt::format("--layout {} --activations {} --method {}", layout_name(layout_),
                                            activations_name(activations_), report_.method);
    line("perigee convert SOURCE OUTPUT {}{}{}", options, context_.more_options.empty() ? "" : " ",
         plain(context_.more_options));
    line("perigee verify SOURCE OUTPUT");
    line("```");
    line("");
    line("The same source and options give the same bytes, however many threads or machines take part.");
  }

  const ConversionReport& report_;
  const ModelCardContext& context_;
  const Layout layout_;
  const Activations activations_;
  std::string text_;
};

}  // namespace

std::string make_model_card(const ConversionReport& report, const ModelCardContext& context) {
  return Card(report, context).write();
}

}  // namespace perigee
