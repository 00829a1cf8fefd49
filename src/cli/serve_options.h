// The options of `perigee serve`.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/model_options.h"
#include "engine/prefix_cache.h"
#include "engine/scheduler.h"
#include "serve/dialect.h"
#include "serve/http_server.h"

namespace perigee {

struct ServeArguments {
  ModelOptions model;
  std::vector<std::string> names;  // empty: the name of the checkpoint's folder
  HttpServerOptions http;
  RouterOptions router;
  std::filesystem::path key_file;
  bool no_key = false;  // answer strangers without a key
  bool no_web = false;  // no page for browsers at /
  ServeOptions serve;
  SchedulerOptions scheduler;
  PrefixCacheOptions prefixes;
  unsigned drain_seconds = 30;
};

void add_serve_options(CLI::App& command, ServeArguments& arguments);

// Completes what follows from others: keys of the file, names, hosts. kUsage for what must not be, first of
// all a public address without a key.
void complete_serve_arguments(ServeArguments& arguments);

}  // namespace perigee
