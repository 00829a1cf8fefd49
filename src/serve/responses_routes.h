// POST /v1/responses.
#pragma once

#include "serve/dialect.h"

namespace perigee {

void add_responses_routes(Router& router, const ServeContext& context);

}  // namespace perigee
