// The promise: the float32 logits of a sequence are the same bits whatever computes them (docs/numerics.md).
// One hash over all logits of a few sequences, asked of every backend, in every batch, chunking and format.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "base/hash.h"
#include "engine/loaded_mini.h"
#include "engine/snapshot.h"
#include "support/resident_expert.h"

namespace perigee {
namespace {

using Ids = std::vector<std::uint32_t>;

struct Schedule {
  std::size_t chunk = 1 << 20;
  std::size_t together = 1;        // sequences in a step
  bool staggered = false;          // one joins per step, so that prompts meet single tokens
  std::size_t snapshot_after = 0;  // tokens after which the state goes through a file; 0: never
};

class Run {
 public:
  Run(const Model& model, Ids ids, const Schedule& schedule)
      : model_(model), schedule_(schedule), ids_(std::move(ids)), state_(model.config()) {}

  bool done() const { return state_.position == ids_.size(); }
  SequenceInput next() {
    if (schedule_.snapshot_after > 0 && state_.position >= schedule_.snapshot_after && !restored_) restore();
    const std::size_t count = std::min(schedule_.chunk, ids_.size() - state_.position);
    return {.ids = std::span(ids_).subspan(state_.position, count),
            .state = &state_,
            .embeddings = {},
            .all_logits = true};
  }
  void keep(const float* logits, std::size_t count) { logits_.insert(logits_.end(), logits, logits + count); }
  const std::vector<float>& logits() const { return logits_; }

 private:
  void restore() {
    const test::TempDir folder;
    const auto prefix = std::span(ids_).first(state_.position);
    save_snapshot(take_snapshot(state_, prefix, "mini"), folder / "state");
    state_ = restore_snapshot(load_snapshot(folder / "state"), model_.config(), prefix, "mini");
    restored_ = true;
  }

  const Model& model_;
  Schedule schedule_;
  Ids ids_;
  SequenceState state_;
  std::vector<float> logits_;
  bool restored_ = false;
};

void run_group(const Model& model, std::span<Run> runs, bool staggered) {
  for (std::size_t joined = staggered ? 1 : runs.size();; ++joined) {
    std::vector<Run*> active;
    std::vector<SequenceInput> inputs;
    for (Run& run : runs.first(std::min(joined, runs.size()))) {
      if (run.done()) continue;
      active.push_back(&run);
      inputs.push_back(run.next());
    }
    if (active.empty() && joined >= runs.size()) return;
    if (active.empty()) continue;
    const Tensor logits = model.forward(inputs);
    std::size_t row = 0;
    for (std::size_t i = 0; i < active.size(); ++i) {
      active[i]->keep(logits[row], inputs[i].ids.size() * logits.width());
      row += inputs[i].ids.size();
    }
  }
}

std::uint64_t hash_of(const Model& model, const std::vector<Ids>& sequences, const Schedule& schedule) {
  std::vector<Run> runs;
  for (const Ids& ids : sequences) runs.emplace_back(model, ids, schedule);
  for (std::size_t first = 0; first < runs.size(); first += schedule.together) {
    run_group(model, std::span(runs).subspan(first, std::min(schedule.together, runs.size() - first)),
              schedule.staggered);
  }
  Xxh3 hash;
  for (const Run& run : runs) hash.update(std::as_bytes(std::span(run.logits())));
  return hash.value();
}

const std::vector<Ids>& few_sequences() {
  static const std::vector<Ids> ids = {test::mini_ids(1, 1), test::mini_ids(4, 2), test::mini_ids(17, 3),
                                       test::mini_ids(9, 4), test::mini_ids(2, 5), test::mini_ids(4, 2),
                                       test::mini_ids(3, 6), test::mini_ids(1, 7)};
  return ids;
}

// The definition: the scalar reference, every sequence alone and whole.
std::uint64_t reference_hash(Precision precision, const std::vector<Ids>& sequences) {
  const ReferenceOps ops(precision);
  return hash_of(Model(test::mini_weights(), ops), sequences, {});
}

std::uint64_t few_hash(Precision precision) {
  static const std::uint64_t bf16 = reference_hash(Precision::kBf16, few_sequences());
  static const std::uint64_t f32 = reference_hash(Precision::kF32, few_sequences());
  return precision == Precision::kBf16 ? bf16 : f32;
}

class OneHash : public ::testing::TestWithParam<std::tuple<std::string, Precision>> {
 protected:
  std::unique_ptr<Ops> ops(unsigned threads) const {
    return make_ops({std::get<Precision>(GetParam()), threads, std::get<std::string>(GetParam())});
  }
  bool is_reference() const { return std::get<std::string>(GetParam()) == "reference"; }
  std::uint64_t expected() const { return few_hash(std::get<Precision>(GetParam())); }
};

TEST_P(OneHash, ForAnyBatchChunkAndSnapshot) {
  const auto backend = ops(1);
  const Model model(test::mini_weights(), *backend);
  const Schedule schedules[] = {{},
                                {.chunk = 1},
                                {.chunk = 7, .together = 3},
                                {.chunk = 1, .together = 8},
                                {.together = 8},
                                {.chunk = 5, .together = 8, .staggered = true},
                                {.chunk = 3, .together = 2, .snapshot_after = 2}};
  for (const Schedule& schedule : schedules) {
    const bool plain = !schedule.staggered && schedule.snapshot_after == 0;
    if (is_reference() && plain) continue;  // slow, and what the others are compared with
    EXPECT_EQ(hash_of(model, few_sequences(), schedule), expected())
        << fmt::format("chunk {} together {} staggered {} snapshot after {}", schedule.chunk,
                       schedule.together, schedule.staggered, schedule.snapshot_after);
  }
}

TEST_P(OneHash, ForAnyNumberOfThreads) {
  if (is_reference()) GTEST_SKIP() << "the reference has no threads";
  for (const unsigned threads : {1u, 2u, 3u}) {
    const auto backend = ops(threads);
    EXPECT_EQ(hash_of(Model(test::mini_weights(), *backend), few_sequences(), {.chunk = 6, .together = 4}),
              expected())
        << threads << " threads";
  }
}

// The mini model with its experts cast to NVFP4.
const LoadedModel& cast_weights(Layout layout) {
  static const test::TempDir folder;
  static std::map<Layout, LoadedModel> loaded;
  const auto found = loaded.find(layout);
  if (found != loaded.end()) return found->second;
  const auto converted = folder / std::to_string(static_cast<int>(layout));
  test::make_nvfp4(test::mini_model(), converted, layout);
  return loaded.emplace(layout, LoadedModel::load(converted, {})).first->second;
}

TEST_P(OneHash, ForTheLosslessCastsOfTheExperts) {
  const auto backend = ops(2);
  for (const Layout layout : {Layout::kModelOpt, Layout::kCompressedTensors}) {
    const LoadedModel& weights = cast_weights(layout);
    ASSERT_EQ(test::resident_expert(weights, 1, 0).w1.format, WeightFormat::kNvfp4);
    EXPECT_EQ(hash_of(Model(weights, *backend), few_sequences(), {}), expected());
  }
}

std::string parameter_name(const ::testing::TestParamInfo<OneHash::ParamType>& test) {
  std::string name = std::get<0>(test.param);
  std::erase(name, '-');  // GoogleTest takes letters, digits and _
  return name + (std::get<1>(test.param) == Precision::kBf16 ? "_bf16" : "_f32");
}

INSTANTIATE_TEST_SUITE_P(Backends, OneHash,
                         ::testing::Combine(::testing::ValuesIn(available_backends()),
                                            ::testing::Values(Precision::kBf16, Precision::kF32)),
                         parameter_name);

// Longer than one piece of the latent cache.
TEST(OneHashOfALongSequence, ForEveryBackendWholeAndInChunks) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "a minute with sanitizers; the release build runs it";
#endif
  const std::vector<Ids> ids = {test::mini_ids(kMlaPiece + 14, 9)};
  const std::uint64_t expected = reference_hash(Precision::kBf16, ids);
  for (const std::string& name : available_backends()) {
    if (name == "reference") continue;  // what the others are compared with
    const auto backend = make_ops({Precision::kBf16, 2, name});
    const Model model(test::mini_weights(), *backend);
    EXPECT_EQ(hash_of(model, ids, {.chunk = 64}), expected) << name;
    EXPECT_EQ(hash_of(model, ids, {.chunk = 256}), expected) << name;
    EXPECT_EQ(hash_of(model, ids, {}), expected) << name;
  }
}

// Guards the tests above: a hash of nothing, or of logits that do not tell sequences apart, would be equal
// too.
TEST(OneHashItself, DependsOnPrecisionIdsAndWeights) {
  EXPECT_NE(few_hash(Precision::kBf16), few_hash(Precision::kF32));
  std::vector<Ids> other = few_sequences();
  other[2][0] ^= 1;
  EXPECT_NE(reference_hash(Precision::kBf16, other), few_hash(Precision::kBf16));
  const ReferenceOps ops(Precision::kF32);
  const Model model(test::mini_weights(), ops);
  SequenceState state(model.config());
  const Ids ids = test::mini_ids(3, 1);
  const SequenceInput input{.ids = ids, .state = &state, .embeddings = {}, .all_logits = true};
  const Tensor logits = model.forward({&input, 1});
  ASSERT_EQ(logits.rows(), 3u);
  for (const float logit : logits.values()) ASSERT_TRUE(std::isfinite(logit));
}

}  // namespace
}  // namespace perigee
