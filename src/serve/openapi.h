// The OpenAPI 3.1 document of a router's routes, so that it cannot tell of others.
#pragma once

#include <string>

#include "serve/router.h"

namespace perigee {

std::string openapi_document(const Router& router);

}  // namespace perigee
