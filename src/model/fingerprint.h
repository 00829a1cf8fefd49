// A short name for the weights of a loaded model, so that a state saved with one model is not restored into
// another. Looks at every small tensor whole and at the beginning of every large one: it tells checkpoints
// apart, it does not prove that two are equal (`perigee verify` does).
#pragma once

#include <string>

#include "compute/ops.h"
#include "model/weights.h"

namespace perigee {

// 16 hex digits of the trunk's weights, the first expert of the first and the last layer that has some, and
// the precision.
std::string model_fingerprint(const LoadedModel& model, Precision precision);

}  // namespace perigee
