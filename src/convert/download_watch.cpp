#include "convert/download_watch.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "base/progress.h"
#include "checkpoint/safetensors.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr auto kPollInterval = std::chrono::milliseconds(500);

}  // namespace

bool is_complete_download(const fs::path& shard) {
  for (const char* suffix : {".aria2", ".incomplete", ".part", ".tmp"}) {
    if (fs::exists(shard.string() + suffix)) return false;
  }
  if (!fs::exists(shard)) return false;
  try {
    read_safetensors_header(File::open_read(shard));
    return true;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCorrupt) return false;
    throw;
  }
}

std::string take_complete_download(const fs::path& folder, std::vector<std::string>& pending,
                                   double timeout_seconds, const CancelToken* cancel) {
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    const auto ready = std::ranges::find_if(
        pending, [&folder](const std::string& name) { return is_complete_download(folder / name); });
    if (ready != pending.end()) {
      std::string name = *ready;
      pending.erase(ready);
      return name;
    }
    if (cancel != nullptr) cancel->check();
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
    if (waited.count() > timeout_seconds) {
      fail(ErrorCode::kNotFound, "no shard was completed for {}; {} and {} others are missing in {}",
           format_duration(timeout_seconds), pending.front(), pending.size() - 1, folder.string());
    }
    std::this_thread::sleep_for(kPollInterval);
  }
}

}  // namespace perigee
