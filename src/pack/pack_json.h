// JSON forms of what a pack measured; deterministic. The readers throw nlohmann::json::exception for a
// missing or mistyped field.
#pragma once

#include <nlohmann/json.hpp>

#include "pack/pack_journal.h"

namespace perigee {

nlohmann::json planes_to_json(const PlaneTable& planes);
PlaneTable planes_from_json(const nlohmann::json& object);

nlohmann::json item_to_json(const ItemRecord& record);
ItemRecord item_from_json(const nlohmann::json& object);

}  // namespace perigee
