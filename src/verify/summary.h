// Sums over modules: spans relative to the exponent that w1 and w3 share, totals by projection and layer.
#pragma once

#include "verify/verify.h"

namespace perigee::verifying {

// Largest errors that standard requantisation makes on real weights (docs/formats.md); beyond is a warning.
inline constexpr double kGateRelativeRmse = 0.075;
inline constexpr double kGateCosine = 0.9975;

// Fills spans, total, by_projection and by_layer from report.modules, which it sorts.
void summarise_modules(VerifyReport& report);

}  // namespace perigee::verifying
