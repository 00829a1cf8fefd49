// Which read comes next: what somebody waits for before what is only foreseen, along the disk in one
// direction, and only as many at a time as a drive has use for. Reads nothing itself; its owner has a lock.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "experts/cache_policy.h"
#include "experts/expert_files.h"

namespace perigee {

class ReadQueue {
 public:
  struct Read {
    ExpertKey key;
    ExpertPlace place;
  };

  // Files of the same drive share its `per_drive` reads; half of them, at least one, may be foreseen ones.
  ReadQueue(std::span<const std::filesystem::path> files, unsigned per_drive);

  void add_demand(const Read& read);
  void add_foreseen(const Read& read);  // likeliest first
  void remove(const Read& read);        // if it has not been taken
  std::vector<Read> clear_foreseen();   // those that were not taken

  // The next read of a drive that has room for it, of those with the fewest under way: where slots are few, a
  // slow drive does not hold all of them. nullopt if there is none. It counts until finished().
  bool demand_ready() const;
  std::optional<Read> take_demand();
  // The same, for drives that have no demand waiting.
  bool foreseen_ready() const;
  std::optional<Read> take_foreseen();
  void finished(const Read& read, bool foreseen);

  std::size_t drives() const { return drives_.size(); }
  std::size_t drive_of(const Read& read) const { return drive_of_file_[read.place.file]; }

 private:
  using Position = std::tuple<std::uint32_t, std::uint64_t, ExpertKey>;  // file, offset; a damaged folder may
                                                                         // have two experts at one place
  static Position position(const Read& read) { return {read.place.file, read.place.offset, read.key}; }
  struct Drive {
    std::map<Position, Read> demand;
    Position head{};  // behind the last read taken
    std::vector<Read> foreseen;
    unsigned reading = 0;
    unsigned reading_foreseen = 0;
  };

  Drive& drive(const ExpertPlace& place) { return drives_[drive_of_file_[place.file]]; }
  bool has_room(const Drive& drive) const { return drive.reading < per_drive_; }
  bool may_foresee(const Drive& drive) const;

  unsigned per_drive_;
  std::vector<std::size_t> drive_of_file_;
  std::vector<Drive> drives_;
};

}  // namespace perigee
