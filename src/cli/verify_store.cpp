#include "cli/verify_store.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/text_table.h"
#include "pack/verify_store.h"

namespace perigee {
namespace {

using nlohmann::ordered_json;

std::string to_json(const StoreVerification& result) {
  ordered_json failures = ordered_json::array();
  for (const StoreFailure& failure : result.kept) failures.push_back(failure.what);
  const ordered_json document = {{"source", result.report.source_name},
                                 {"lossless", result.report.is_lossless()},
                                 {"records", result.records},
                                 {"parts", result.parts},
                                 {"experts_compared", result.compared},
                                 {"tensors_compared", result.same},
                                 {"tensors_rounded", result.rounded},
                                 {"bytes_read", result.bytes_read},
                                 {"failures", result.failures},
                                 {"kept_failures", std::move(failures)},
                                 {"seconds", result.seconds}};
  return document.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

void print_screen(const StoreVerification& result, bool with_source) {
  fmt::print("{} records and {} trunk and header files have their checksums looked at, {} in {}\n",
             with_commas(result.records), result.parts, format_bytes(result.bytes_read),
             format_duration(result.seconds));
  if (with_source) {
    fmt::print("{} experts and {} trunk tensors compared with the checkpoint byte for byte; {} are rounded\n",
               with_commas(result.compared), with_commas(result.same), with_commas(result.rounded));
  }
  for (const StoreFailure& failure : result.kept) fmt::print("failure: {}\n", failure.what);
  if (result.failures > result.kept.size())
    fmt::print("… and {} more\n", result.failures - result.kept.size());
  if (result.failures > 0) {
    fmt::print("\nFAILED: {} failure{}\n", result.failures, plural(result.failures));
  } else if (!result.report.is_lossless()) {
    fmt::print("\nROUNDED: planes of the trunk, as asked when it was packed; the rest is whole\n");
  } else {
    fmt::print("\n{}\n", with_source ? "EXACT: every value is the checkpoint's"
                                     : "WHOLE: every byte is as it was written");
  }
}

}  // namespace

int run_verify_store(const std::filesystem::path& store, const std::optional<std::filesystem::path>& source,
                     const WorkOptions& options, const std::string& json) {
  const StoreVerification result = verify_store(store, source, options);
  if (json == "-") {
    fmt::print("{}", to_json(result));
  } else {
    if (!json.empty()) write_file_atomically(json, to_json(result));
    print_screen(result, source.has_value());
  }
  if (result.failures > 0) return exit_status(ErrorCode::kMismatch);
  return result.report.is_lossless() ? kExitLossless : kExitLossy;
}

}  // namespace perigee
