#include "experts/streamed_experts.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/hash.h"

namespace perigee {
namespace {

using Clock = std::chrono::steady_clock;

// A disk that fails once may answer the next time; one that fails three times will not.
constexpr unsigned kMostAttempts = 3;
// A drive that lost so many experts in a row is taken to be gone: each of its reads may take long to fail, so
// that they are tried once from then on, until one succeeds.
constexpr unsigned kLostWithTheDrive = 4;
// The part of the slots that may be kept for what is only foreseen.
constexpr std::size_t kForeseenDivisor = 4;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::uint64_t head_of(const ExpertPlace& place) {
  return place.offset % kDirectAlignment;
}

std::vector<File> open_all(const std::vector<std::filesystem::path>& paths) {
  std::vector<File> files;
  for (const std::filesystem::path& path : paths) files.push_back(File::open_read(path, Caching::kDirect));
  return files;
}

}  // namespace

StreamedExperts::StreamedExperts(std::unique_ptr<const ExpertFiles> files, StreamedOptions options)
    : files_(std::move(files)),
      options_(std::move(options)),
      open_files_(open_all(files_->files())),
      pool_(options_.slots, files_->largest_run(), options_.lock_memory),
      most_foreseen_(options_.slots / kForeseenDivisor),
      policy_(make_cache_policy(options_.policy, {files_->layers(), files_->experts(), options_.slots},
                                options_.usage, options_.pinned_share)),
      queue_(files_->files(), options_.reads_per_drive),
      table_(files_->layers() * files_->experts()),
      verified_(table_.size(), false),
      foreseen_(files_->layers()),
      lost_(queue_.drives(), 0) {
  if (options_.slots == 0) fail(ErrorCode::kInternal, "experts cannot be streamed through no memory");
  io_ = options_.make_io ? options_.make_io() : make_async_io();
  io_->register_memory(pool_.memory());
  statistics_.slots = pool_.slots();
  statistics_.slot_bytes = pool_.slot_bytes();
  Records started;
  {
    const std::scoped_lock lock(mutex_);
    for (const ExpertKey key : policy_->pinned()) {
      if (files_->has_experts(key.layer)) popular_.push_back(key);
    }
    collect_reads(started);
  }
  start(started);
}

StreamedExperts::~StreamedExperts() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  // Waits for the reads under way. One that came back before `stopping_` may still be about to start others
  // through io_, so that it must not be null before they are done, which reset() would make it.
  delete io_.get();
  static_cast<void>(io_.release());
}

std::string StreamedExperts::describe(const ReadQueue::Read& read) const {
  return fmt::format("expert {} of layer {} in {} at byte {}", read.key.expert, read.key.layer,
                     files_->files()[read.place.file].string(), read.place.offset);
}

StreamingStatistics StreamedExperts::statistics() const {
  const std::scoped_lock lock(mutex_);
  StreamingStatistics now = statistics_;
  if (now.reading > 0) now.disk_seconds += seconds_since(disk_busy_since_);
  return now;
}

ExpertUsage StreamedExperts::usage() const {
  const std::scoped_lock lock(mutex_);
  return policy_->usage();
}

// --- What is asked for ------------------------------------------------------------------------------------

StreamedExperts::RecordPtr StreamedExperts::add_record(ExpertKey key) {
  const ExpertPlace place = files_->place(key.layer, key.expert);
  if (place.bytes > files_->largest_run()) {
    fail(ErrorCode::kInternal, "expert {} of layer {} is larger than the largest", key.expert, key.layer);
  }
  RecordPtr& record = entry(key);
  record = std::make_shared<Record>();
  record->read = {key, place};
  return record;
}

StreamedExperts::RecordPtr StreamedExperts::attach(ExpertKey key) {
  RecordPtr record = entry(key);
  if (!record) {
    record = add_record(key);
    queue_.add_demand(record->read);
  } else if (record->state == Record::State::kQueued && record->foreseen) {
    queue_.remove(record->read);
    queue_.add_demand(record->read);
  }
  record->foreseen = false;
  ++record->wanted;
  return record;
}

void StreamedExperts::count_demand(ExpertKey key) {
  const Record* record = entry(key).get();
  ++statistics_.asked;
  statistics_.bytes_used += files_->place(key.layer, key.expert).bytes;
  if (record == nullptr || (record->state == Record::State::kQueued && record->foreseen)) {
    ++statistics_.misses;
  } else if (record->state != Record::State::kReady) {
    ++statistics_.joined;
  } else if (record->foreseen && record->reserved) {
    ++statistics_.hits_prefetch;
  } else if (policy_->is_pinned(key)) {
    ++statistics_.hits_pinned;
  } else {
    ++statistics_.hits_pool;
  }
}

void StreamedExperts::release(const RecordPtr& record) {
  if (--record->wanted > 0) return;
  if (record->state == Record::State::kQueued) {
    queue_.remove(record->read);
    entry(record->read.key).reset();
  } else if (record->orphan) {
    pool_.give_back(record->slot);
  }
}

// --- What is foreseen -------------------------------------------------------------------------------------

void StreamedExperts::forget_foreseen() {
  for (const ReadQueue::Read& read : queue_.clear_foreseen()) entry(read.key).reset();
}

void StreamedExperts::end_reservations(std::uint64_t layer) {
  std::erase_if(reserved_, [&](const RecordPtr& record) {
    const bool in_memory = record->state == Record::State::kReading || record->state == Record::State::kReady;
    if (record->read.key.layer != layer && in_memory) return false;
    record->reserved = false;
    return true;
  });
}

void StreamedExperts::judge_foresight(std::uint64_t layer, std::span<const std::uint32_t> experts) {
  const std::vector<std::uint32_t> foreseen = std::exchange(foreseen_[layer], {});
  if (foreseen.empty()) return;
  statistics_.foreseen += foreseen.size();
  statistics_.foreseen_asked += experts.size();
  statistics_.foreseen_needed += forecasts_.judge(foreseen, experts);
}

void StreamedExperts::prefetch(std::uint64_t layer, std::span<const std::uint32_t> experts) {
  Records started;
  if (!wants_prefetch() || layer >= files_->layers() || !files_->has_experts(layer)) return;
  {
    const std::scoped_lock lock(mutex_);
    forget_foreseen();  // the layer that they were for has come, or will not
    end_reservations(layer);
    foreseen_[layer].assign(experts.begin(), experts.end());
    for (std::size_t rank = 0; rank < experts.size(); ++rank) {
      if (experts[rank] >= files_->experts() || reserved_.size() >= most_foreseen_) break;
      if (!forecasts_.is_worth_reading(rank)) continue;
      const ExpertKey key{static_cast<std::uint32_t>(layer), experts[rank]};
      RecordPtr record = entry(key);
      if (!record) {
        record = add_record(key);
        record->foreseen = true;
        queue_.add_foreseen(record->read);
      }
      record->reserved = true;
      reserved_.push_back(std::move(record));
    }
    collect_reads(started);
  }
  start(started);
}

// --- Reading ----------------------------------------------------------------------------------------------

bool StreamedExperts::make_room() {
  if (pool_.has_free()) return true;
  const std::optional<ExpertKey> victim = policy_->victim([&](ExpertKey key) {
    const Record& record = *entry(key);
    return record.wanted == 0 && !record.reserved;
  });
  if (!victim) return false;  // until somebody gives one back
  pool_.give_back(entry(*victim)->slot);
  entry(*victim).reset();
  policy_->removed(*victim);
  return true;
}

void StreamedExperts::begin_read(const RecordPtr& record, bool foreseen) {
  record->state = Record::State::kReading;
  record->slot = pool_.take();
  record->attempts = 1;
  record->counts_foreseen = foreseen;
  if (statistics_.reading++ == 0) disk_busy_since_ = Clock::now();
}

// The popular set is read into slots that nobody has used yet, while the drives have nothing else to do.
void StreamedExperts::queue_popular() {
  while (!popular_.empty() && pool_.has_free() && !queue_.foreseen_ready()) {
    const ExpertKey key = popular_.front();
    popular_.pop_front();
    if (entry(key)) continue;
    const RecordPtr record = add_record(key);
    record->foreseen = true;
    queue_.add_foreseen(record->read);
    if (!queue_.foreseen_ready()) {  // no room in its drive now
      queue_.remove(record->read);
      entry(key).reset();
      popular_.push_front(key);
      return;
    }
  }
}

void StreamedExperts::collect_reads(Records& started) {
  if (stopping_) return;
  while (queue_.demand_ready() && make_room()) {
    const RecordPtr& record = entry(queue_.take_demand()->key);
    begin_read(record, false);
    started.push_back(record);
  }
  for (queue_popular(); queue_.foreseen_ready() && make_room(); queue_popular()) {
    const RecordPtr& record = entry(queue_.take_foreseen()->key);
    begin_read(record, true);
    started.push_back(record);
  }
}

void StreamedExperts::start(const Records& started) {
  for (const RecordPtr& record : started) {
    const ExpertPlace& place = record->read.place;
    const std::uint64_t begin = align_down(place.offset, kDirectAlignment);
    const std::uint64_t length = align_up(place.offset + place.bytes, kDirectAlignment) - begin;
    io_->read(open_files_[place.file].fd(), {pool_.slot(record->slot), length}, begin,
              [this, record](IoResult result) { finish_read(record, result); });
  }
}

void StreamedExperts::finish_read(const RecordPtr& record, IoResult result) {
  Records started;
  {
    const std::scoped_lock lock(mutex_);
    const ExpertPlace& place = record->read.place;
    const bool whole = result.error == 0 && result.bytes >= head_of(place) + place.bytes;
    const bool give_up_at_once = stopping_ || (result.error != 0 && seems_gone(record->read));
    if (!whole && record->attempts < kMostAttempts && !give_up_at_once) {
      ++record->attempts;
      ++statistics_.retries;
      started.push_back(record);
    } else {
      queue_.finished(record->read, record->counts_foreseen);
      ++statistics_.reads;
      if (--statistics_.reading == 0) statistics_.disk_seconds += seconds_since(disk_busy_since_);
      (record->counts_foreseen ? statistics_.bytes_prefetch : statistics_.bytes_demand) += result.bytes;
      if (whole) {
        record->state = Record::State::kReady;
        lost_[queue_.drive_of(record->read)] = 0;
        policy_->inserted(record->read.key);
      } else {
        if (result.error != 0) ++lost_[queue_.drive_of(record->read)];
        give_up(*record, failure_of(*record, result));
      }
      collect_reads(started);
    }
  }
  start(started);
  changed_.notify_all();
}

bool StreamedExperts::seems_gone(const ReadQueue::Read& read) const {
  return lost_[queue_.drive_of(read)] >= kLostWithTheDrive;
}

Error StreamedExperts::failure_of(const Record& record, IoResult result) const {
  const ExpertPlace& place = record.read.place;
  if (result.error == 0) {
    return {ErrorCode::kCorrupt, fmt::format("cannot read {}: the file ends before byte {}; it has changed "
                                             "since it was opened",
                                             describe(record.read), place.offset + place.bytes)};
  }
  std::string sentence =
      fmt::format("cannot read {}: {}", describe(record.read), std::strerror(result.error));
  if (seems_gone(record.read)) {
    sentence +=
        fmt::format("; the last {} experts from the drive of {} were lost: is it still there?",
                    lost_[queue_.drive_of(record.read)], files_->files()[place.file].parent_path().string());
  }
  return {ErrorCode::kIo, sentence};
}

void StreamedExperts::give_up(Record& record, Error failure) {
  record.state = Record::State::kFailed;
  record.failure = std::make_unique<Error>(std::move(failure));
  ++statistics_.failures;
  pool_.give_back(record.slot);
  entry(record.read.key).reset();
}

// --- Checksums --------------------------------------------------------------------------------------------

const std::byte* StreamedExperts::run_of(const Record& record) const {
  return pool_.slot(record.slot) + head_of(record.read.place);
}

bool StreamedExperts::needs_check(const Record& record) const {
  if (!record.read.place.checksum || options_.verify == VerifyReads::kNever || record.checked) return false;
  return options_.verify == VerifyReads::kAlways || !verified_[index_of(record.read.key)];
}

bool StreamedExperts::is_whole(const Record& record) const {
  return xxh3_64({run_of(record), record.read.place.bytes}) == record.read.place.checksum;
}

// Others may be looking at it just now; whoever comes next reads the file again.
void StreamedExperts::drop_damaged(const RecordPtr& record) {
  if (record->orphan) return;
  record->orphan = true;
  entry(record->read.key).reset();
  policy_->removed(record->read.key);
}

// --- Leases -----------------------------------------------------------------------------------------------

class StreamedExperts::Lease final : public ExpertLease {
 public:
  explicit Lease(StreamedExperts& source) : source_(source) {}

  ~Lease() override {
    Records started;
    {
      const std::scoped_lock lock(source_.mutex_);
      for (const Item& item : items_) {
        if (item.record) source_.release(item.record);
      }
      source_.collect_reads(started);
    }
    source_.start(started);
  }

  // With the source's mutex held.
  void add(RecordPtr record) { items_.push_back({std::move(record), 0}); }

  std::optional<Arrived> next() override {
    give_back_held();
    while (Item* item = wait_for_one()) {
      const auto index = static_cast<std::size_t>(item - items_.data());
      const Record& record = *item->record;
      if (record.state == Record::State::kFailed) {
        const RecordPtr failed = std::move(item->record);
        throw ExpertUnavailable(*failed->failure, index);
      }
      if (!is_sound(*item, index)) continue;
      held_ = item;
      const ExpertKey key = record.read.key;
      return Arrived{index, source_.files_->weights(key.layer, key.expert, source_.run_of(record))};
    }
    return std::nullopt;
  }

 private:
  struct Item {
    RecordPtr record;      // null once it was given out and back
    unsigned damaged = 0;  // times that its checksum was wrong
  };

  void give_back_held() {
    if (held_ == nullptr) return;
    Records started;
    {
      const std::scoped_lock lock(source_.mutex_);
      source_.release(held_->record);
      source_.collect_reads(started);
    }
    held_->record.reset();
    held_ = nullptr;
    source_.start(started);
  }

  // One that is there, or has failed; null if none is left.
  Item* wait_for_one() {
    std::unique_lock lock(source_.mutex_);
    for (;;) {
      Item* waiting = nullptr;
      for (Item& item : items_) {
        if (!item.record) continue;
        const auto state = item.record->state;
        if (state == Record::State::kReady || state == Record::State::kFailed) return &item;
        waiting = &item;
      }
      if (waiting == nullptr) return nullptr;
      const Clock::time_point start = Clock::now();
      source_.changed_.wait(lock);
      source_.statistics_.wait_seconds += seconds_since(start);
    }
  }

  // False if the item has to be read again; throws if that was done already.
  bool is_sound(Item& item, std::size_t index) {
    {
      const std::scoped_lock lock(source_.mutex_);
      if (!source_.needs_check(*item.record)) return true;
    }
    const bool whole = source_.is_whole(*item.record);
    Records started;
    const RecordPtr checked = item.record;
    const ReadQueue::Read read = checked->read;
    {
      const std::scoped_lock lock(source_.mutex_);
      ++source_.statistics_.checked;
      if (whole) {
        checked->checked = true;
        source_.verified_[source_.index_of(read.key)] = true;
        return true;
      }
      source_.drop_damaged(checked);
      source_.release(checked);
      if (++item.damaged < kMostAttempts) {
        ++source_.statistics_.retries;
        item.record = source_.attach(read.key);
      } else {
        ++source_.statistics_.failures;
        item.record.reset();
      }
      source_.collect_reads(started);
    }
    source_.start(started);
    if (item.record) return false;
    throw ExpertUnavailable(
        Error(ErrorCode::kCorrupt,
              fmt::format("{} does not have the checksum that its folder says; the file is "
                          "damaged: fetch or pack it again",
                          source_.describe(read))),
        index);
  }

  StreamedExperts& source_;
  std::vector<Item> items_;
  Item* held_ = nullptr;
};

std::unique_ptr<ExpertLease> StreamedExperts::acquire(std::uint64_t layer,
                                                      std::span<const std::uint32_t> experts) {
  if (layer >= files_->layers() || !files_->has_experts(layer) ||
      std::ranges::any_of(experts, [&](std::uint32_t expert) { return expert >= files_->experts(); })) {
    fail(ErrorCode::kInternal, "an expert of layer {} was asked for that the model does not have", layer);
  }
  auto lease = std::make_unique<Lease>(*this);
  Records started;
  {
    const std::scoped_lock lock(mutex_);
    const auto index = static_cast<std::uint32_t>(layer);
    policy_->visit(index, experts);
    judge_foresight(layer, experts);
    for (const std::uint32_t expert : experts) {
      count_demand({index, expert});
      lease->add(attach({index, expert}));
    }
    forget_foreseen();
    end_reservations(layer);
    collect_reads(started);
  }
  start(started);
  return lease;
}

}  // namespace perigee
