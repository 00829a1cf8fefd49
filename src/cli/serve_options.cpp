#include "cli/serve_options.h"

#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "serve/listener.h"

namespace perigee {
namespace {

constexpr const char* kOwnModel = "models/nano";

template <typename Value>
CLI::Option* add_size(CLI::App& command, const std::string& name, Value& value, const std::string& help) {
  return command.add_option(name, value, help)->type_name("BYTES")->transform(CLI::AsSizeValue(false));
}

void add_network_options(CLI::App& command, ServeArguments& arguments) {
  HttpServerOptions& http = arguments.http;
  const std::string group = "Network";
  command.add_option("--host", http.host, "Address to listen on; empty: none")
      ->group(group)
      ->capture_default_str();
  command.add_option("--port", http.port, "Port; 0: a free one")->group(group)->capture_default_str();
  command.add_option("--unix", http.socket_file, "Also listen on a socket file, for its owner only")
      ->group(group)
      ->type_name("FILE");
  CLI::Option* certificate = command.add_option("--tls-cert", http.certificate, "Certificate chain, PEM")
                                 ->group(group)
                                 ->type_name("FILE");
  CLI::Option* key = command.add_option("--tls-key", http.private_key, "Its private key, PEM")
                         ->group(group)
                         ->type_name("FILE");
  certificate->needs(key);
  key->needs(certificate);
  command.add_option("--max-connections", http.max_connections, "Open connections; more have to wait")
      ->group(group)
      ->check(CLI::Range(1U, 1000000U))
      ->capture_default_str();
  add_size(command, "--max-body", arguments.router.max_body_bytes, "Largest body of a request [64 MiB]")
      ->group(group);
  command.add_option("--drain", arguments.drain_seconds, "Seconds for replies to end after SIGTERM")
      ->group(group)
      ->type_name("N")
      ->capture_default_str();
}

void add_access_options(CLI::App& command, ServeArguments& arguments) {
  const std::string group = "Access";
  command
      .add_option("--api-key", arguments.router.keys,
                  "Key that clients must send; repeatable (others on this machine may see it: prefer a file)")
      ->group(group)
      ->type_name("KEY")
      ->allow_extra_args(false);
  command.add_option("--api-key-file", arguments.key_file, "File of keys, one a line; # begins a comment")
      ->group(group)
      ->type_name("FILE");
  command.add_flag("--no-web", arguments.no_web, "No page for browsers at /")->group(group);
  command.add_flag("--no-key", arguments.no_key, "Listen on a public address without a key")->group(group);
  command
      .add_option("--cors-origin", arguments.router.cors_origins,
                  "Origin whose pages may ask, e.g. https://chat.example; repeatable; *: all")
      ->group(group)
      ->type_name("ORIGIN")
      ->allow_extra_args(false);
}

void add_engine_options(CLI::App& command, ServeArguments& arguments) {
  const std::string group = "Engine";
  SchedulerOptions& scheduler = arguments.scheduler;
  command.add_option("--max-running", scheduler.most_running, "Replies being generated at once")
      ->group(group)
      ->type_name("N")
      ->capture_default_str();
  command.add_option("--max-waiting", scheduler.most_waiting, "Requests that may wait; more get status 429")
      ->group(group)
      ->type_name("N")
      ->capture_default_str();
  add_size(command, "--state-memory", scheduler.memory_bytes, "For the states of all running replies [1 GiB]")
      ->group(group);
  add_size(command, "--prefix-memory", arguments.prefixes.memory_bytes,
           "For states of prompts that may come again [256 MiB]")
      ->group(group);
  command.add_option("--prefix-folder", arguments.prefixes.folder, "Keep such states in files as well, here")
      ->group(group)
      ->type_name("FOLDER");
  add_size(command, "--prefix-disk", arguments.prefixes.folder_bytes, "Most bytes of those files [4 GiB]")
      ->group(group);
  command
      .add_option("--max-tokens", arguments.serve.default_max_tokens,
                  "Most tokens of a reply whose request names no limit")
      ->group(group)
      ->type_name("N")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

void read_key_file(ServeArguments& arguments) {
  if (arguments.key_file.empty()) return;
  constexpr std::size_t kLargest = std::size_t{1} << 20;
  std::istringstream lines(read_small_file(arguments.key_file, kLargest));
  const std::size_t before = arguments.router.keys.size();
  for (std::string line; std::getline(lines, line);) {
    line = CLI::detail::trim_copy(line);
    if (!line.empty() && line.front() != '#') arguments.router.keys.push_back(line);
  }
  if (arguments.router.keys.size() == before) {
    fail(ErrorCode::kUsage, "--api-key-file {}: holds no key", arguments.key_file.string());
  }
}

void check_access(ServeArguments& arguments) {
  for (const std::string& key : arguments.router.keys) {
    if (key.empty()) fail(ErrorCode::kUsage, "--api-key: is empty; a key has at least one character");
  }
  if (!arguments.router.keys.empty() || arguments.http.host.empty()) return;
  if (is_loopback(arguments.http.host)) {
    arguments.router.hosts = {"localhost", "127.0.0.1", "[::1]", arguments.http.host};
    return;
  }
  if (arguments.no_key) return;
  fail(ErrorCode::kUsage,
       "--host {}: anybody who reaches this address could use the model; give --api-key-file, or --no-key "
       "if that is meant",
       arguments.http.host);
}

void choose_model(ServeArguments& arguments) {
  std::error_code ignored;
  if (arguments.model.checkpoint.empty() &&
      std::filesystem::exists(std::filesystem::path(kOwnModel) / "config.json", ignored)) {
    arguments.model.checkpoint = kOwnModel;
  }
  if (arguments.model.checkpoint.empty()) {
    fail(ErrorCode::kUsage, "no model to serve: name a checkpoint with -m");
  }
  if (!arguments.names.empty()) return;
  const auto absolute = std::filesystem::absolute(arguments.model.checkpoint / ".").parent_path();
  arguments.names = {absolute.filename().string()};
}

}  // namespace

void add_serve_options(CLI::App& command, ServeArguments& arguments) {
  arguments.prefixes.memory_bytes = std::uint64_t{256} << 20;
  arguments.prefixes.folder_bytes = std::uint64_t{4} << 30;
  add_model_option(command, arguments.model);
  command.get_option("--model")->required(false)->description(
      "Checkpoint to serve [models/nano, if it is there]");
  add_model_vocabulary_option(command, arguments.model);
  add_backend_options(command, arguments.model);
  command
      .add_option("--name", arguments.names, "Name of the model for clients; repeatable [its folder's name]")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command.add_flag("--vendor-contract", arguments.serve.vendor_contract,
                   "Refuse what Moonshot's API refuses for K3, e.g. a temperature other than 1");
  command.add_flag("--urgent-requests", arguments.serve.urgent_requests,
                   "Let clients overtake all others by a priority below 0");
  add_network_options(command, arguments);
  add_access_options(command, arguments);
  add_engine_options(command, arguments);
}

void complete_serve_arguments(ServeArguments& arguments) {
  read_key_file(arguments);
  check_access(arguments);
  choose_model(arguments);
}

}  // namespace perigee
