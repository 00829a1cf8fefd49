// The last act of a conversion: sidecar files, metadata, report, model card, checksums, and the index at the
// very end. Everything is made from what is on disk and in the journal; running it twice gives the same
// bytes.
#pragma once

#include "convert/convert.h"

namespace perigee {

inline constexpr const char* kReportFileName = "conversion_report.json";
inline constexpr const char* kModulesFileName = "conversion_modules.jsonl";
inline constexpr const char* kChecksumsFileName = "SHA256SUMS";

// `report` has everything but the records' sums; `shards` are the finished files in index order, whose
// records the journal holds. Returns the completed report.
ConversionReport finalise_checkpoint(const ConvertOptions& options, ConversionReport report,
                                     const Journal& journal, const std::vector<std::string>& shards);

}  // namespace perigee
