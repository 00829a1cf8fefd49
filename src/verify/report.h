// A verification as JSON: one document for programs, and one line per expert module for those who want all
// 247,296.
#pragma once

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

#include "verify/verify.h"

namespace perigee {

// Verdict, failures, warnings, totals, files with their SHA-256, summaries by projection and layer.
nlohmann::ordered_json verify_report_json(const VerifyReport& report);

// JSON lines, by layer, expert and projection.
void write_module_lines(const VerifyReport& report, std::ostream& out);

}  // namespace perigee
