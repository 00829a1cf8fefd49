// The state in bytes: for every layer in order either the three convolutions' rows and S, or the rows of the
// latent cache up to the position.
#include "engine/snapshot.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "base/hash.h"

namespace perigee {
namespace {

// The rows of [begin, positions) that lie in one piece with `begin`.
std::size_t rows_in_piece(std::size_t begin, std::size_t positions) {
  return std::min(kMlaPiece, positions - begin);
}

// Calls visit(span of floats) for every run of memory of the first `positions` tokens' state, in the order of
// the bytes. The cache of a state that may be written grows to that many.
template <typename Layer, typename Visit>
void visit_layer(Layer& layer, std::size_t positions, const Visit& visit) {
  if (auto* kda = std::get_if<KdaState>(&layer)) {
    for (auto* tensor : {&kda->conv_q, &kda->conv_k, &kda->conv_v, &kda->s}) visit(tensor->values());
    return;
  }
  auto& cache = std::get<MlaCache>(layer);
  for (std::size_t begin = 0; begin < positions; begin += kMlaPiece) {
    const std::size_t size = rows_in_piece(begin, positions) * cache.width();
    if constexpr (std::is_const_v<Layer>) {
      visit(std::span(cache.view(positions).pieces[begin / kMlaPiece], size));
    } else {
      visit(std::span(cache.row(begin), size));
    }
  }
}

std::size_t state_bytes(const SequenceState& state, std::size_t positions) {
  std::size_t floats = 0;
  for (const auto& layer : state.layers) {
    if (const auto* cache = std::get_if<MlaCache>(&layer)) {
      floats += positions * cache->width();
    } else {
      visit_layer(layer, 0, [&](std::span<const float> run) { floats += run.size(); });
    }
  }
  return floats * sizeof(float);
}

}  // namespace

std::uint64_t snapshot_checksum(const Snapshot& snapshot) {
  const std::uint64_t lengths[] = {snapshot.ids.size(), snapshot.model_fingerprint.size(),
                                   snapshot.bytes.size()};
  Xxh3 hash;
  hash.update(std::as_bytes(std::span(lengths)));
  hash.update(std::as_bytes(std::span(snapshot.ids)));
  hash.update(std::as_bytes(std::span(snapshot.model_fingerprint)));
  hash.update(snapshot.bytes);
  return hash.value();
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
  snapshot.bytes.reserve(state_bytes(state, state.position));
  for (const auto& layer : state.layers) {
    visit_layer(layer, state.position, [&](std::span<const float> run) {
      const auto bytes = std::as_bytes(run);
      snapshot.bytes.insert(snapshot.bytes.end(), bytes.begin(), bytes.end());
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
  if (snapshot.bytes.size() != state_bytes(state, ids.size())) {
    fail(ErrorCode::kMismatch, "a snapshot holds {} bytes of state, but this model needs {} for {} tokens",
         snapshot.bytes.size(), state_bytes(state, ids.size()), ids.size());
  }
  const std::byte* from = snapshot.bytes.data();
  for (auto& layer : state.layers) {
    visit_layer(layer, ids.size(), [&](std::span<float> run) {
      std::memcpy(run.data(), from, run.size_bytes());
      from += run.size_bytes();
    });
  }
  state.position = ids.size();
  return state;
}

}  // namespace perigee
