// Which shards of a source a run converts: all, some by number or layer, and of those the share of one rank.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/index.h"

namespace perigee {

// "3", "1-4,7" -> {1,2,3,4,7}; ascending, without duplicates. kUsage naming `option` and the accepted form.
std::vector<std::uint64_t> parse_number_list(std::string_view text, std::string_view option);

// Shard files in order; `numbers` are 1-based positions in the index's sorted list, `layers` select the
// shards that hold any tensor of these decoder layers. Both empty: all. kUsage if a number or layer does not
// exist.
std::vector<std::string> select_shards(const CheckpointIndex& index,
                                       const std::vector<std::uint64_t>& numbers,
                                       const std::vector<std::uint64_t>& layers);

// Every world_size-th file, starting with number `rank`.
std::vector<std::string> shards_of_rank(const std::vector<std::string>& shards, unsigned rank,
                                        unsigned world_size);

}  // namespace perigee
