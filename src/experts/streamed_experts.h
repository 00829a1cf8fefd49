// Experts that live in files and visit memory: a fixed pool of slots in front of the folder. A step's lease
// gets what is present at once and the rest in whatever order the drives deliver it; reads go past the page
// cache into the slot that the kernels then read. Which expert leaves is a CachePolicy's choice. Nothing here
// can show in results: the forward pass adds experts up in their own order.
//
// A lease holds one slot between two calls of next(), so that any number of leases works with one slot, as
// long as each is asked for its next expert, or destroyed, without waiting for another lease.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/file.h"
#include "experts/cache_policy.h"
#include "experts/expert_files.h"
#include "experts/expert_source.h"
#include "experts/forecast_record.h"
#include "experts/read_queue.h"
#include "experts/slot_pool.h"
#include "experts/streamed_options.h"
#include "experts/streaming_statistics.h"

namespace perigee {

class StreamedExperts final : public ExpertSource {
 public:
  StreamedExperts(std::unique_ptr<const ExpertFiles> files, StreamedOptions options);
  ~StreamedExperts() override;

  std::unique_ptr<ExpertLease> acquire(std::uint64_t layer, std::span<const std::uint32_t> experts) override;
  bool wants_prefetch() const override { return options_.prefetch && most_foreseen_ > 0; }
  void prefetch(std::uint64_t layer, std::span<const std::uint32_t> experts) override;

  StreamingStatistics statistics() const;
  ExpertUsage usage() const;  // to be kept for the next run
  const char* io_name() const { return io_->name(); }

 private:
  class Lease;

  // An expert that is in memory, or on its way.
  struct Record {
    enum class State { kQueued, kReading, kReady, kFailed };
    ReadQueue::Read read;
    State state = State::kQueued;
    std::size_t slot = 0;          // while reading and ready
    unsigned wanted = 0;           // leases that wait for it or use it
    unsigned attempts = 0;         // of reading it
    bool foreseen = false;         // nobody has asked for it yet
    bool reserved = false;         // foreseen for a layer that has not come yet
    bool counts_foreseen = false;  // its read is among the foreseen ones
    bool checked = false;          // its checksum was right
    bool orphan = false;           // damaged: its slot is free once nobody looks at it
    std::unique_ptr<Error> failure;
  };
  using RecordPtr = std::shared_ptr<Record>;
  using Records = std::vector<RecordPtr>;

  std::size_t index_of(ExpertKey key) const { return key.layer * files_->experts() + key.expert; }
  RecordPtr& entry(ExpertKey key) { return table_[index_of(key)]; }
  std::string describe(const ReadQueue::Read& read) const;

  // All of these with mutex_ held.
  RecordPtr add_record(ExpertKey key);
  RecordPtr attach(ExpertKey key);  // for a lease
  void count_demand(ExpertKey key);
  void release(const RecordPtr& record);
  void forget_foreseen();
  void end_reservations(std::uint64_t layer);
  void judge_foresight(std::uint64_t layer, std::span<const std::uint32_t> experts);
  bool make_room();
  void begin_read(const RecordPtr& record, bool foreseen);
  void queue_popular();
  void collect_reads(Records& started);
  bool seems_gone(const ReadQueue::Read& read) const;
  Error failure_of(const Record& record, IoResult result) const;
  void give_up(Record& record, Error failure);
  void drop_damaged(const RecordPtr& record);
  bool needs_check(const Record& record) const;

  // Without it.
  void start(const Records& started);
  void finish_read(const RecordPtr& record, IoResult result);
  bool is_whole(const Record& record) const;  // compares the checksum
  const std::byte* run_of(const Record& record) const;

  const std::unique_ptr<const ExpertFiles> files_;
  StreamedOptions options_;
  std::vector<File> open_files_;
  SlotPool pool_;
  const std::size_t most_foreseen_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<CachePolicy> policy_;
  ReadQueue queue_;
  Records table_;                                     // [layers, experts]; null: not in memory
  std::vector<bool> verified_;                        // [layers, experts]
  std::vector<std::vector<std::uint32_t>> foreseen_;  // [layers]: announced last, likeliest first
  ForecastRecord forecasts_;
  std::vector<RecordPtr> reserved_;
  std::deque<ExpertKey> popular_;  // still to be read ahead
  std::vector<unsigned> lost_;     // by drive: experts given up since it last gave one
  StreamingStatistics statistics_;
  std::chrono::steady_clock::time_point disk_busy_since_;
  bool stopping_ = false;
  std::unique_ptr<AsyncIo> io_;  // last: its end waits for the reads that write into all the above
};

}  // namespace perigee
