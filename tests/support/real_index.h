// The tensor index of the real release, where a developer has it (shared_folder()/k3). It is too large
// and not ours to commit, so tests that use it skip themselves without it. For tests only.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace perigee::test {

// Names per shard file, in the order of the index. Empty if the file is absent or gzip is.
std::optional<std::map<std::string, std::vector<std::string>>> read_real_index(
    const std::filesystem::path& shared_data);

}  // namespace perigee::test
