#include "pack/workshop.h"

#include <algorithm>

#include "base/hash.h"

namespace perigee {

std::uint64_t hash_from_disk(Workshop& work, const std::filesystem::path& path) {
  File::open_read(path).drop_cache();
  const File file = File::open_read(path, Caching::kDirect);
  const std::uint64_t bytes = file.size();
  Xxh3 hash;
  const auto plan = [&](std::size_t i) {
    const std::uint64_t begin = i * kStretch;
    return TaskPlan{{{&file, begin, std::min(kStretch, bytes - begin)}}, 0};
  };
  const auto retire = [&](Task& task) {
    hash.update(task.inputs[0]);
    work.progress.add(task.inputs[0].size());
  };
  const std::uint64_t largest = Pipeline::slot_bytes({{{&file, 0, kStretch}}, 0});
  work.pipeline.run((bytes + kStretch - 1) / kStretch, largest, plan, [](Task&) {}, retire);
  return hash.value();
}

}  // namespace perigee
