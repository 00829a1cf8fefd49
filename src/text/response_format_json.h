// response_format of a request.
#pragma once

#include "text/conversation.h"
#include "text/json_tree.h"

namespace perigee {

// `format`: an object, or the type as a bare string. Lenient as the released encoder: any schema, or none.
ResponseFormat read_response_format(const JsonNode& format, bool lenient);

}  // namespace perigee
