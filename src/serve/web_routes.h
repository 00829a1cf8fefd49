// The page for people at "/": a chat and a view of the machine. It is built into the program
// (cmake/embed.cmake) and talks to the same routes as every other client; it holds no secrets, so it is given
// without a key.
#pragma once

#include <span>
#include <string_view>

#include "serve/router.h"

namespace perigee {

struct WebFile {
  std::string_view path;  // below web/
  std::string_view bytes;
};

// Sorted by path; written at build time.
std::span<const WebFile> web_files();

// GET and HEAD of "/" and of "/web/…".
void add_web_routes(Router& router);

}  // namespace perigee
