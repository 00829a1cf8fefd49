// The state in bytes: for every layer in order either the three convolutions' rows and S as float32, or the
// rows of the latent cache up to the position, in bf16 or float32 as they are kept.
#include "engine/snapshot.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "base/hash.h"

namespace perigee {
namespace {

// Calls visit(span of bytes) for every run of memory of the first `positions` tokens' state, in the order of
// the snapshot. The cache of a state that may be written grows to that many.
template <typename Layer, typename Visit>
void visit_layer(Layer& layer, std::size_t positions, Precision precision, const Visit& visit) {
  constexpr bool kReads = std::is_const_v<Layer>;
  if (auto* kda = std::get_if<KdaState>(&layer)) {
    for (auto* tensor : {&kda->conv_q, &kda->conv_k, &kda->conv_v, &kda->s}) {
      if constexpr (kReads) {
        visit(std::as_bytes(tensor->values()));
      } else {
        visit(std::as_writable_bytes(tensor->values()));
      }
    }
    return;
  }
  auto& cache = std::get<MlaCache>(layer);
  for (std::size_t begin = 0; begin < positions; begin += kMlaPiece) {
    const std::size_t count = std::min(kMlaPiece, positions - begin);
    if constexpr (kReads) {
      visit(cache.rows(begin, count));
    } else {
      visit(cache.rows(begin, count, precision));
    }
  }
}

std::uint64_t state_bytes(const SequenceState& state, std::size_t positions, Precision precision) {
  std::uint64_t bytes = 0;
  for (const auto& layer : state.layers) {
    if (const auto* cache = std::get_if<MlaCache>(&layer)) {
      bytes += positions * cache->width() * cache_value_bytes(precision);
    } else {
      visit_layer(layer, 0, precision, [&](std::span<const std::byte> run) { bytes += run.size(); });
    }
  }
  return bytes;
}

// That of the first cache that has a row; one without rows has nothing to keep.
Precision cache_precision(const SequenceState& state) {
  for (const auto& layer : state.layers) {
    const auto* cache = std::get_if<MlaCache>(&layer);
    if (cache != nullptr && cache->precision()) return *cache->precision();
  }
  return Precision::kBf16;
}

}  // namespace

std::uint64_t snapshot_checksum(const Snapshot& snapshot) {
  const std::uint64_t numbers[] = {snapshot.ids.size(), snapshot.model_fingerprint.size(),
                                   snapshot.bytes.size(), static_cast<std::uint64_t>(snapshot.precision)};
  Xxh3 hash;
  hash.update(std::as_bytes(std::span(numbers)));
  hash.update(std::as_bytes(std::span(snapshot.ids)));
  hash.update(std::as_bytes(std::span(snapshot.model_fingerprint)));
  hash.update(snapshot.bytes);
  return hash.value();
}

std::uint64_t snapshot_bytes(const SequenceState& state) {
  return state_bytes(state, state.position, cache_precision(state));
}

Snapshot take_snapshot(const SequenceState& state, std::span<const std::uint32_t> ids,
                       const std::string& model_fingerprint) {
  if (state.position != ids.size()) {
    fail(ErrorCode::kInternal, "a snapshot of a state after {} tokens was asked for with {} ids",
         state.position, ids.size());
  }
  Snapshot snapshot;
  snapshot.ids.assign(ids.begin(), ids.end());
  snapshot.model_fingerprint = model_fingerprint;
  snapshot.precision = cache_precision(state);
  snapshot.bytes.reserve(snapshot_bytes(state));
  for (const auto& layer : state.layers) {
    visit_layer(layer, state.position, snapshot.precision, [&](std::span<const std::byte> run) {
      snapshot.bytes.insert(snapshot.bytes.end(), run.begin(), run.end());
    });
  }
  snapshot.checksum = snapshot_checksum(snapshot);
  return snapshot;
}

SequenceState restore_snapshot(const Snapshot& snapshot, const K3Config& config,
                               std::span<const std::uint32_t> ids, const std::string& model_fingerprint) {
  if (snapshot_checksum(snapshot) != snapshot.checksum) {
    fail(ErrorCode::kCorrupt,
         "a snapshot of {} tokens is damaged: its checksum does not fit; compute its prompt again",
         snapshot.ids.size());
  }
  if (snapshot.model_fingerprint != model_fingerprint) {
    fail(ErrorCode::kMismatch, "a snapshot belongs to model {}, not to {}", snapshot.model_fingerprint,
         model_fingerprint);
  }
  if (!std::equal(ids.begin(), ids.end(), snapshot.ids.begin(), snapshot.ids.end())) {
    fail(ErrorCode::kMismatch,
         "a snapshot of {} tokens was asked to stand for {} others; it is only good for its own",
         snapshot.ids.size(), ids.size());
  }
  SequenceState state(config);
  const std::uint64_t needed = state_bytes(state, ids.size(), snapshot.precision);
  if (snapshot.bytes.size() != needed) {
    fail(ErrorCode::kMismatch, "a snapshot holds {} bytes of state, but this model needs {} for {} tokens",
         snapshot.bytes.size(), needed, ids.size());
  }
  const std::byte* from = snapshot.bytes.data();
  for (auto& layer : state.layers) {
    visit_layer(layer, ids.size(), snapshot.precision, [&](std::span<std::byte> run) {
      std::memcpy(run.data(), from, run.size());
      from += run.size();
    });
  }
  state.position = ids.size();
  return state;
}

}  // namespace perigee
