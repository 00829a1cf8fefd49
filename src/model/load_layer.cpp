#include "model/load_layer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <deque>

#include "base/error.h"
#include "base/hash.h"
#include "model/checkpoint_tensors.h"
#include "model/layer_loader.h"

namespace perigee {
namespace {

// The number of the first element whose bits under `mask` are all set: infinities and NaN.
template <typename Bits>
std::optional<std::size_t> first_with(std::span<const std::byte> bytes, Bits mask) {
  for (std::size_t i = 0; i < bytes.size() / sizeof(Bits); ++i) {
    Bits bits;
    std::memcpy(&bits, bytes.data() + i * sizeof(Bits), sizeof(Bits));
    if ((bits & mask) == mask) return i;
  }
  return std::nullopt;
}

std::optional<std::size_t> first_non_number(const TensorInfo& tensor, std::span<const std::byte> bytes) {
  switch (tensor.dtype) {
    case DType::kBF16:
      return first_with<std::uint16_t>(bytes, 0x7F80);
    case DType::kF16:
      return first_with<std::uint16_t>(bytes, 0x7C00);
    case DType::kF32:
      return first_with<std::uint32_t>(bytes, 0x7F800000);
    case DType::kF8E4M3:
      return first_with<std::uint8_t>(bytes, 0x7F);
    case DType::kF8E8M0:
      return first_with<std::uint8_t>(bytes, 0xFF);
    case DType::kU8:  // E8M0 by another name, or pairs of 4-bit values, which are all numbers
      if (tensor.name.ends_with(".weight_scale")) return first_with<std::uint8_t>(bytes, 0xFF);
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

void refuse_non_numbers(const TensorInfo& tensor, std::span<const std::byte> bytes) {
  const auto bad = first_non_number(tensor, bytes);
  if (!bad) return;
  const std::uint64_t width = tensor.shape.empty() ? 1 : tensor.shape.back();
  fail(ErrorCode::kCorrupt,
       "{} row {} column {} is NaN or infinite, so nothing can be computed with it; compare the shard's "
       "SHA-256 "
       "with the published one, or download it again",
       tensor.name, *bad / width, *bad % width);
}

Fingerprint fingerprint(const TensorInfo& tensor, std::span<const std::byte> bytes) {
  return {tensor.name, tensor.dtype, tensor.shape, xxh3_64(bytes)};
}

ExpertFormat format_of(const CheckpointTensors& tensors, std::uint64_t layer) {
  const std::string module = expert_module_name(layer, 0, Projection::kW1);
  if (tensors.find(module + ".weight_scale_2") != nullptr) return ExpertFormat::kNvfp4ModelOpt;
  if (tensors.find(module + ".weight_global_scale") != nullptr) return ExpertFormat::kNvfp4CompressedTensors;
  return tensors.find(module + ".weight_scale") != nullptr ? ExpertFormat::kMxfp4 : ExpertFormat::kNone;
}

// An expert in memory of its own.
struct HeldExpert {
  HeldExpert(const K3Config& config, std::shared_ptr<const CheckpointTensors> tensors, std::uint64_t layer,
             std::uint64_t expert, const TensorReader::Observer& observe)
      : reader(std::move(tensors)) {
    LayerLoader(config, reader).want_expert(layer, expert, weights);
    constexpr std::size_t kRounding = 1024;  // nine tensors, each on a cache line
    arena = WeightArena(reader.wanted_bytes() + kRounding);
    reader.read(arena, {}, observe);
  }
  HeldExpert(const HeldExpert&) = delete;
  HeldExpert& operator=(const HeldExpert&) = delete;

  TensorReader reader;  // keeps floats made of other types
  WeightArena arena;
  ExpertWeights weights;
};

class ExpertsInFile : public ExpertSource {
 public:
  ExpertsInFile(const K3Config& config, std::shared_ptr<const CheckpointTensors> tensors, std::uint64_t layer)
      : config_(config), tensors_(std::move(tensors)), layer_(layer) {}

  std::unique_ptr<ExpertLease> acquire(std::uint64_t layer, std::span<const std::uint32_t> experts) override {
    if (layer != layer_)
      fail(ErrorCode::kInternal, "experts of layer {} were asked of layer {}", layer, layer_);
    return std::make_unique<Lease>(*this, experts);
  }

  std::unique_ptr<HeldExpert> read(std::uint64_t expert, const TensorReader::Observer& observe) const {
    return std::make_unique<HeldExpert>(config_, tensors_, layer_, expert, observe);
  }

 private:
  class Lease : public ExpertLease {
   public:
    Lease(const ExpertsInFile& source, std::span<const std::uint32_t> experts)
        : source_(source), experts_(experts.begin(), experts.end()) {}
    std::optional<Arrived> next() override {
      held_.reset();  // first, so that there is never more than one
      if (next_ == experts_.size()) return std::nullopt;
      const std::size_t index = next_++;
      held_ = source_.read(experts_[index], refuse_non_numbers);
      return Arrived{index, held_->weights};
    }

   private:
    const ExpertsInFile& source_;
    const std::vector<std::uint32_t> experts_;
    std::size_t next_ = 0;
    std::unique_ptr<HeldExpert> held_;
  };

  const K3Config& config_;
  const std::shared_ptr<const CheckpointTensors> tensors_;
  const std::uint64_t layer_;
};

// Plans every tensor of the layer and reads none. Returns their bytes in the checkpoint.
std::uint64_t check_tensors(const K3Config& config, const std::shared_ptr<const CheckpointTensors>& tensors,
                            std::uint64_t layer) {
  TensorReader reader(tensors);
  LayerLoader loader(config, reader);
  LayerWeights weights;
  loader.want_layer(layer, weights);
  std::deque<ExpertWeights> experts(config.num_experts);
  for (std::uint64_t e = 0; e < config.num_experts; ++e) loader.want_expert(layer, e, experts[e]);
  reader.check_nothing_left(config.num_hidden_layers);
  return reader.wanted_bytes();
}

}  // namespace

std::uint64_t choose_moe_layer(const K3Config& config, const std::filesystem::path& path,
                               std::optional<std::uint64_t> wanted) {
  const std::vector<std::uint64_t> layers = expert_layers(path);
  if (layers.empty()) {
    fail(ErrorCode::kNotFound,
         "{} holds no routed experts; give a shard of a layer from {} to {} (of K3, shard 2 to 93 is layer 1 "
         "to 92)",
         path.string(), config.first_k_dense_replace, config.num_hidden_layers - 1);
  }
  const std::uint64_t layer = wanted.value_or(layers.front());
  if (!std::binary_search(layers.begin(), layers.end(), layer)) {
    fail(ErrorCode::kNotFound, "{} holds no routed experts of layer {}; it has those of {}", path.string(),
         layer, fmt::join(layers, ", "));
  }
  if (layer >= config.num_hidden_layers) {
    fail(ErrorCode::kUnsupported,
         "{} holds layer {}, but config.json describes {} layers; shard and config belong to different "
         "checkpoints",
         path.string(), layer, config.num_hidden_layers);
  }
  if (!config.is_moe(layer)) {
    fail(ErrorCode::kUnsupported,
         "{} holds routed experts of layer {}, which config.json describes as dense; shard and config belong "
         "to "
         "different checkpoints",
         path.string(), layer);
  }
  return layer;
}

struct LoadedLayer::Storage {
  Storage(const K3Config& loaded, std::shared_ptr<const CheckpointTensors> found, std::uint64_t layer)
      : config(loaded), tensors(std::move(found)), experts(config, tensors, layer) {}
  K3Config config;
  std::shared_ptr<const CheckpointTensors> tensors;
  ExpertsInFile experts;
  LayerWeights weights;
  WeightArena arena;
  std::deque<std::vector<float>> vectors;
  std::vector<Fingerprint> fingerprints;
  ExpertFormat format = ExpertFormat::kNone;
  std::uint64_t expert_bytes = 0;
};

LoadedLayer LoadedLayer::load(const K3Config& config, const std::filesystem::path& path, std::uint64_t layer,
                              const Options& options) {
  const auto tensors = std::make_shared<CheckpointTensors>(CheckpointTensors::of_layer(path, layer));
  auto storage = std::make_unique<Storage>(config, tensors, layer);
  const std::uint64_t all_bytes = check_tensors(config, tensors, layer);
  TensorReader reader(tensors);
  LayerLoader loader(storage->config, reader);
  loader.want_layer(layer, storage->weights);
  storage->expert_bytes = (all_bytes - reader.wanted_bytes()) / config.num_experts;
  storage->format = format_of(*tensors, layer);
  check_memory(reader.memory_bytes() + storage->expert_bytes, options.memory_limit_bytes);
  reader.read(storage->arena, options.progress,
              [&](const TensorInfo& tensor, std::span<const std::byte> bytes) {
                refuse_non_numbers(tensor, bytes);
                storage->fingerprints.push_back(fingerprint(tensor, bytes));
              });
  storage->vectors = reader.take_vectors();
  loader.finish_layer(layer, storage->weights);
  return LoadedLayer(std::move(storage));
}

LoadedLayer::LoadedLayer(std::unique_ptr<Storage> storage) : storage_(std::move(storage)) {}
LoadedLayer::~LoadedLayer() = default;
LoadedLayer::LoadedLayer(LoadedLayer&&) noexcept = default;
LoadedLayer& LoadedLayer::operator=(LoadedLayer&&) noexcept = default;

const LayerWeights& LoadedLayer::weights() const {
  return storage_->weights;
}
ExpertSource& LoadedLayer::experts() const {
  return storage_->experts;
}
ExpertFormat LoadedLayer::expert_format() const {
  return storage_->format;
}
std::uint64_t LoadedLayer::trunk_bytes() const {
  return storage_->arena.bytes();
}
std::uint64_t LoadedLayer::expert_bytes() const {
  return storage_->expert_bytes;
}
const std::vector<Fingerprint>& LoadedLayer::trunk_fingerprints() const {
  return storage_->fingerprints;
}

std::vector<Fingerprint> LoadedLayer::expert_fingerprints(std::uint64_t expert) const {
  std::vector<Fingerprint> prints;
  storage_->experts.read(expert, [&](const TensorInfo& tensor, std::span<const std::byte> bytes) {
    prints.push_back(fingerprint(tensor, bytes));
  });
  return prints;
}

}  // namespace perigee
