#include "experts/read_queue.h"

#include <sys/stat.h>

#include <algorithm>
#include <unordered_map>

namespace perigee {

ReadQueue::ReadQueue(std::span<const std::filesystem::path> files, unsigned per_drive)
    : per_drive_(std::max(1U, per_drive)) {
  std::unordered_map<dev_t, std::size_t> drives;
  for (const std::filesystem::path& file : files) {
    struct stat info {};
    const dev_t device = ::stat(file.c_str(), &info) == 0 ? info.st_dev : 0;
    drive_of_file_.push_back(drives.try_emplace(device, drives.size()).first->second);
  }
  drives_.resize(drives.size());
}

void ReadQueue::add_demand(const Read& read) {
  drive(read.place).demand.emplace(position(read), read);
}

void ReadQueue::add_foreseen(const Read& read) {
  drive(read.place).foreseen.push_back(read);
}

void ReadQueue::remove(const Read& read) {
  Drive& from = drive(read.place);
  from.demand.erase(position(read));
  std::erase_if(from.foreseen, [&](const Read& other) { return other.key == read.key; });
}

std::vector<ReadQueue::Read> ReadQueue::clear_foreseen() {
  std::vector<Read> cleared;
  for (Drive& each : drives_) {
    cleared.insert(cleared.end(), each.foreseen.begin(), each.foreseen.end());
    each.foreseen.clear();
  }
  return cleared;
}

bool ReadQueue::demand_ready() const {
  return std::ranges::any_of(drives_,
                             [&](const Drive& each) { return !each.demand.empty() && has_room(each); });
}

std::optional<ReadQueue::Read> ReadQueue::take_demand() {
  Drive* from = nullptr;
  for (Drive& each : drives_) {
    if (each.demand.empty() || !has_room(each)) continue;
    if (from == nullptr || each.reading < from->reading) from = &each;
  }
  if (from == nullptr) return std::nullopt;
  auto next = from->demand.lower_bound(from->head);
  if (next == from->demand.end()) next = from->demand.begin();
  const Read read = next->second;
  from->head = next->first;
  from->demand.erase(next);
  ++from->reading;
  return read;
}

bool ReadQueue::may_foresee(const Drive& drive) const {
  return drive.demand.empty() && !drive.foreseen.empty() && has_room(drive) &&
         drive.reading_foreseen < std::max(1U, per_drive_ / 2);
}

bool ReadQueue::foreseen_ready() const {
  return std::ranges::any_of(drives_, [&](const Drive& each) { return may_foresee(each); });
}

std::optional<ReadQueue::Read> ReadQueue::take_foreseen() {
  for (Drive& each : drives_) {
    if (!may_foresee(each)) continue;
    const Read read = each.foreseen.front();
    each.foreseen.erase(each.foreseen.begin());
    ++each.reading;
    ++each.reading_foreseen;
    return read;
  }
  return std::nullopt;
}

void ReadQueue::finished(const Read& read, bool foreseen) {
  Drive& from = drive(read.place);
  --from.reading;
  if (foreseen) --from.reading_foreseen;
}

}  // namespace perigee
