#include "engine/prefix_cache.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "engine/prefix_key.h"
#include "engine/snapshot_folder.h"

namespace perigee {

// Snapshots in memory, the least recently used go first; a folder behind them.
class PrefixCache::Impl {
 public:
  Impl(const K3Config& config, std::string model_fingerprint, PrefixCacheOptions options)
      : config_(config), fingerprint_(std::move(model_fingerprint)), options_(std::move(options)) {
    if (!options_.folder.empty())
      folder_ = std::make_unique<SnapshotFolder>(options_.folder, options_.folder_bytes);
  }

  bool knows_prefix(const GenerationRequest& request) {
    if (longest(PrefixKeys(fingerprint_, request.prompt, request.embeddings), request.prompt.size()))
      return true;
    const std::scoped_lock lock(mutex_);
    ++statistics_.misses;
    return false;
  }

  std::optional<SequenceState> find(const GenerationRequest& request) {
    const PrefixKeys keys(fingerprint_, request.prompt, request.embeddings);
    std::size_t below = request.prompt.size();
    while (const std::optional<PrefixKey> key = longest(keys, below)) {
      if (std::optional<SequenceState> state = restored(*key, request)) {
        const std::scoped_lock lock(mutex_);
        ++statistics_.hits;
        return state;
      }
      below = key->length;
    }
    const std::scoped_lock lock(mutex_);
    ++statistics_.misses;
    return std::nullopt;
  }

  bool contains(const GenerationRequest& request, std::size_t position) const {
    const std::size_t length = std::min(position, request.prompt.size());
    return contains(
        PrefixKeys(fingerprint_, std::span(request.prompt).first(length), request.embeddings).of(length));
  }

  void keep(const Sequence& sequence) {
    const std::size_t length = sequence.computed();
    const std::span<const std::uint32_t> ids = std::span(sequence.ids()).first(length);
    const std::vector<PromptEmbedding>& embeddings = sequence.request().embeddings;
    const PrefixKey key = PrefixKeys(fingerprint_, ids, embeddings).of(length);
    const std::uint64_t bytes = snapshot_bytes(sequence.state());
    const bool folder = folder_ && bytes <= options_.folder_bytes;
    if (contains(key) || (bytes > options_.memory_bytes && !folder)) return;
    auto snapshot = std::make_shared<const Snapshot>(
        take_snapshot(sequence.state(), ids, prefix_fingerprint(fingerprint_, embeddings, length)));
    {
      const std::scoped_lock lock(mutex_);
      insert(key, snapshot);
    }
    if (folder) folder_->save_later(key, std::move(snapshot));
  }

  void wait_for_files() {
    if (folder_) folder_->wait();
  }

  PrefixCacheStatistics statistics() const {
    SnapshotFolder::Statistics files;
    if (folder_) files = folder_->statistics();
    const std::scoped_lock lock(mutex_);
    PrefixCacheStatistics statistics = statistics_;
    statistics.in_memory = memory_.size();
    statistics.unwritten_bytes = unwritten_bytes();
    statistics.in_folder = files.files;
    statistics.folder_bytes = files.bytes;
    statistics.damaged += files.damaged;
    statistics.failed_writes = files.failed_writes;
    return statistics;
  }

 private:
  struct Entry {
    std::shared_ptr<const Snapshot> snapshot;
    std::uint64_t used = 0;  // larger: more recently
  };

  static std::uint64_t bytes_of(const Snapshot& snapshot) {
    return snapshot.bytes.size() + snapshot.ids.size() * sizeof(std::uint32_t);
  }

  bool contains(PrefixKey key) const {
    {
      const std::scoped_lock lock(mutex_);
      if (memory_.contains(key)) return true;
    }
    return folder_ && folder_->contains(key);
  }

  // In either place, of fewer than `below` ids.
  std::optional<PrefixKey> longest(const PrefixKeys& keys, std::size_t below) const {
    std::optional<PrefixKey> found;
    if (folder_) found = folder_->longest(keys, below);
    const std::scoped_lock lock(mutex_);
    for (auto place = memory_.lower_bound({below, 0}); place != memory_.begin();) {
      --place;
      if (found && place->first.length <= found->length) break;
      if (place->first == keys.of(place->first.length)) return place->first;
    }
    return found;
  }

  std::shared_ptr<const Snapshot> in_memory(PrefixKey key) {
    const std::scoped_lock lock(mutex_);
    const auto place = memory_.find(key);
    if (place == memory_.end()) return nullptr;
    place->second.used = ++clock_;
    return place->second.snapshot;
  }

  std::optional<SequenceState> restored(PrefixKey key, const GenerationRequest& request) {
    std::shared_ptr<const Snapshot> snapshot = in_memory(key);
    const bool from_folder = !snapshot && folder_;
    if (from_folder) snapshot = folder_->load(key);
    if (!snapshot) return std::nullopt;
    try {
      SequenceState state =
          restore_snapshot(*snapshot, config_, std::span(request.prompt).first(key.length),
                           prefix_fingerprint(fingerprint_, request.embeddings, key.length));
      if (from_folder) {
        const std::scoped_lock lock(mutex_);
        insert(key, std::move(snapshot));
      }
      return state;
    } catch (const Error& error) {  // damaged in memory, or of another prefix whose hash is the same
      log_warning("a snapshot of {} tokens is not used: {}", key.length, error.what());
      const std::scoped_lock lock(mutex_);
      if (error.code() == ErrorCode::kCorrupt) ++statistics_.damaged;
      forget(key);
      return std::nullopt;
    }
  }

  // Under the lock.
  void insert(PrefixKey key, std::shared_ptr<const Snapshot> snapshot) {
    const std::uint64_t bytes = bytes_of(*snapshot);
    if (bytes > options_.memory_bytes || memory_.contains(key)) return;
    const auto held = [&] { return statistics_.memory_bytes + unwritten_bytes() + bytes; };
    while (held() > options_.memory_bytes) {
      if (memory_.empty()) return;
      const auto oldest =
          std::ranges::min_element(memory_, {}, [](const auto& entry) { return entry.second.used; });
      forget(PrefixKey(oldest->first));
    }
    statistics_.memory_bytes += bytes;
    memory_[key] = {std::move(snapshot), ++clock_};
  }

  // Under the lock: of snapshots that only the folder's writer holds.
  std::uint64_t unwritten_bytes() const {
    if (!folder_) return 0;
    std::uint64_t bytes = 0;
    for (const auto& snapshot : folder_->unwritten()) {
      const auto holds = [&](const auto& entry) { return entry.second.snapshot == snapshot; };
      if (std::ranges::none_of(memory_, holds)) bytes += bytes_of(*snapshot);
    }
    return bytes;
  }

  // Under the lock.
  void forget(PrefixKey key) {
    const auto place = memory_.find(key);
    if (place == memory_.end()) return;
    statistics_.memory_bytes -= bytes_of(*place->second.snapshot);
    memory_.erase(place);
  }

  const K3Config& config_;
  const std::string fingerprint_;
  const PrefixCacheOptions options_;
  std::unique_ptr<SnapshotFolder> folder_;

  mutable std::mutex mutex_;
  std::map<PrefixKey, Entry> memory_;
  PrefixCacheStatistics statistics_;
  std::uint64_t clock_ = 0;
};

PrefixCache::PrefixCache(const K3Config& config, std::string model_fingerprint, PrefixCacheOptions options)
    : impl_(std::make_unique<Impl>(config, std::move(model_fingerprint), std::move(options))) {}

PrefixCache::~PrefixCache() = default;

bool PrefixCache::knows_prefix(const GenerationRequest& request) {
  return impl_->knows_prefix(request);
}

std::optional<SequenceState> PrefixCache::find(const GenerationRequest& request) {
  return impl_->find(request);
}

bool PrefixCache::contains(const GenerationRequest& request, std::size_t position) const {
  return impl_->contains(request, position);
}

void PrefixCache::keep(const Sequence& sequence) {
  impl_->keep(sequence);
}

void PrefixCache::wait_for_files() {
  impl_->wait_for_files();
}

PrefixCacheStatistics PrefixCache::statistics() const {
  return impl_->statistics();
}

}  // namespace perigee
