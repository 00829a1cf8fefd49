// JSON forms of conversion records; deterministic (sorted keys, no times, no machine names).
#pragma once

#include <nlohmann/json.hpp>

#include "convert/module_record.h"
#include "verify/verify.h"

namespace perigee {

nlohmann::json module_to_json(const ModuleRecord& module);
// Throws nlohmann::json::exception for a missing or mistyped field.
ModuleRecord module_from_json(const nlohmann::json& object);

nlohmann::json error_to_json(const ErrorSums& error);
ErrorSums error_from_json(const nlohmann::json& object);

}  // namespace perigee
