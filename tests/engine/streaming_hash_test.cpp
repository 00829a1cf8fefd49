// The promise, for experts that come from a disk: the same logits whatever the memory, the policy, the disk's
// moods and the number of threads; and a disk that fails ends only the sequences that need what it lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/hash.h"
#include "engine/engine.h"
#include "engine/loaded_mini.h"
#include "experts/expert_files.h"
#include "experts/slow_io.h"
#include "experts/streamed_experts.h"
#include "experts/two_drives.h"

namespace perigee {
namespace {

using test::SlowIo;

std::unique_ptr<StreamedExperts> stream(StreamedOptions options, SlowIo::Plan plan = {}) {
  options.make_io = [&plan] { return std::make_unique<SlowIo>(std::move(plan)); };
  return std::make_unique<StreamedExperts>(open_checkpoint_experts(test::mini_model()), std::move(options));
}

// A prompt in two steps, then single tokens of two sequences together.
std::uint64_t hash_with(ExpertSource& experts, const Ops& ops) {
  const LoadedModel& weights = test::mini_weights();
  const Model model(weights.config(), weights.text(), experts, ops);
  SequenceState first(weights.config()), second(weights.config());
  Xxh3 hash;
  const auto step = [&](std::vector<SequenceInput> inputs) {
    hash.update(std::as_bytes(std::span(std::as_const(model).forward(inputs).values())));
  };
  const std::vector<std::uint32_t> ids = test::mini_ids(24, 3), other = test::mini_ids(9, 8);
  const auto part = [](const std::vector<std::uint32_t>& of, std::size_t begin, std::size_t count) {
    return std::span(of).subspan(begin, count);
  };
  step({{.ids = part(ids, 0, 11), .state = &first, .embeddings = {}, .all_logits = true}});
  step({{.ids = part(ids, 11, 5), .state = &first, .embeddings = {}, .all_logits = true},
        {.ids = part(other, 0, 1), .state = &second, .embeddings = {}, .all_logits = true}});
  for (std::size_t i = 0; i < 8; ++i) {
    step({{.ids = part(ids, 16 + i, 1), .state = &first, .embeddings = {}, .all_logits = true},
          {.ids = part(other, 1 + i, 1), .state = &second, .embeddings = {}, .all_logits = true}});
  }
  return hash.value();
}

const Ops& fast_ops() {
  static const auto ops = make_ops({});
  return *ops;
}

std::uint64_t resident_hash() {
  static const std::uint64_t hash = hash_with(test::mini_weights().experts(), fast_ops());
  return hash;
}

// 5 layers of 8 experts.
TEST(StreamingHash, IsTheSameForEveryMemoryPolicyAndForesight) {
  for (const std::size_t slots : {1, 3, 15, 16, 40}) {
    for (const auto policy :
         {CachePolicyKind::kPopular, CachePolicyKind::kLeastStale, CachePolicyKind::kLru}) {
      for (const bool prefetch : {false, true}) {
        StreamedOptions options;
        options.slots = slots;
        options.policy = policy;
        options.prefetch = prefetch;
        const auto experts = stream(std::move(options));
        EXPECT_EQ(hash_with(*experts, fast_ops()), resident_hash())
            << slots << " slots, " << cache_policy_name(policy) << ", prefetch " << prefetch;
      }
    }
  }
}

TEST(StreamingHash, IsTheSameWhateverTheDiskDoes) {
  const auto moody = [](std::uint64_t offset, unsigned n) {
    const auto mood = (offset / 4096 + n) % 5;
    if (n > 1) return 0;
    return mood == 0 ? EIO : mood == 1 ? SlowIo::kCutShort : 0;
  };
  for (const std::size_t slots : {1, 5, 40}) {
    StreamedOptions options;
    options.slots = slots;
    const auto experts = stream(std::move(options), {.most_microseconds = 300, .fate = moody});
    EXPECT_EQ(hash_with(*experts, fast_ops()), resident_hash()) << slots << " slots";
    EXPECT_GT(experts->statistics().retries, 0u);
  }
}

// The small model with every second shard on another file system.
std::filesystem::path spread_over(const test::TempDir& folder, const test::OtherDrive& drive) {
  bool other = false;
  for (const auto& entry : std::filesystem::directory_iterator(test::mini_model())) {
    const std::filesystem::path name = entry.path().filename();
    other = !other && name.extension() == ".safetensors";
    std::filesystem::copy_file(entry.path(), (other ? drive.path() : folder.path()) / name);
    if (other) std::filesystem::create_symlink(drive.path() / name, folder.path() / name);
  }
  return folder.path();
}

TEST(StreamingHash, IsTheSameForEveryMemoryPolicyForesightAndNumberOfDrivesUnderRandomDelays) {
  const test::TempDir folder;
  const test::OtherDrive drive;
  std::vector<std::filesystem::path> models = {test::mini_model()};
  if (drive.usable()) models.push_back(spread_over(folder, drive));
  for (const auto& model : models) {
    for (const std::size_t slots : {1, 4, 11, 40}) {
      for (const auto policy :
           {CachePolicyKind::kPopular, CachePolicyKind::kLeastStale, CachePolicyKind::kLru}) {
        for (const bool prefetch : {false, true}) {
          StreamedOptions options;
          options.slots = slots;
          options.policy = policy;
          options.prefetch = prefetch;
          options.make_io = [] { return std::make_unique<SlowIo>(SlowIo::Plan{.most_microseconds = 200}); };
          StreamedExperts experts(open_checkpoint_experts(model), std::move(options));
          EXPECT_EQ(hash_with(experts, fast_ops()), resident_hash())
              << model << ", " << slots << " slots, " << cache_policy_name(policy) << ", prefetch "
              << prefetch;
        }
      }
    }
  }
}

TEST(StreamingHash, IsTheSameForAnyNumberOfThreads) {
  for (const unsigned threads : {1u, 2u, 3u}) {
    const auto ops = make_ops({.precision = Precision::kBf16, .threads = threads, .backend = {}});
    StreamedOptions options;
    options.slots = 6;
    const auto experts = stream(std::move(options), {.most_microseconds = 100, .fate = {}});
    EXPECT_EQ(hash_with(*experts, *ops), resident_hash()) << threads << " threads";
  }
}

// Guards the others: they would also pass if nothing had been streamed or foreseen.
TEST(StreamingHash, IsMadeOfExpertsThatWereReadAndForeseen) {
  StreamedOptions options;
  options.slots = 20;
  const auto experts = stream(std::move(options));
  hash_with(*experts, fast_ops());
  const StreamingStatistics s = experts->statistics();
  EXPECT_GT(s.misses, 40u);
  EXPECT_GT(s.foreseen_asked, 100u);
  EXPECT_GT(s.foreseen_needed, 0u);
  EXPECT_LE(s.foreseen_needed, s.foreseen_asked);
}

TEST(StreamedModel, LoadsIntoAFractionOfItsMemoryAndGivesTheSameHash) {
  LoadedModel::Options options;
  options.experts = ExpertHome::kStreamed;
  const LoadedModel everything = LoadedModel::load(test::mini_model(), options);
  EXPECT_EQ(everything.memory_plan().slots, 40u);
  EXPECT_EQ(hash_with(everything.experts(), fast_ops()), resident_hash());

  // Room for the shortest steps and ten experts.
  const MemoryPlan& plan = everything.memory_plan();
  options.memory_limit_bytes = plan.trunk + plan.states + 16 * (plan.activations / plan.prompt_chunk) +
                               10 * (plan.experts / plan.slots);
  const LoadedModel tight = LoadedModel::load(test::mini_model(), options);
  EXPECT_EQ(tight.memory_plan().slots, 10u);
  EXPECT_LE(tight.memory_plan().total(), options.memory_limit_bytes);
  EXPECT_EQ(hash_with(tight.experts(), fast_ops()), resident_hash());

  options.experts = ExpertHome::kAuto;  // the same, because not everything fits
  EXPECT_NE(LoadedModel::load(test::mini_model(), options).streamed(), nullptr);
  options.memory_limit_bytes = 0;
  EXPECT_EQ(LoadedModel::load(test::mini_model(), options).streamed(), nullptr);
}

// Two sequences, one of which needs an expert that cannot be read.
class LostExpert : public ::testing::Test {
 protected:
  static GenerationRequest request(std::uint32_t start) {
    GenerationRequest made;
    made.prompt = test::mini_ids(2, start);
    made.max_tokens = 3;
    made.sampling.temperature = 0;
    return made;
  }

  // What it generates alone, and the experts that it needs, by layer.
  struct Alone {
    std::vector<std::uint32_t> ids;
    std::set<std::pair<int, std::uint32_t>> experts;
  };
  static Alone alone(std::uint32_t start) {
    Alone seen;
    const LoadedModel& weights = test::mini_weights();
    const Model model(weights, fast_ops());
    Engine::Options options;
    options.observe_routing = [&](int layer, std::span<const RoutedToken> routed) {
      for (const RoutedToken& token : routed) {
        for (const std::uint32_t expert : token.experts) seen.experts.insert({layer, expert});
      }
    };
    Sequence sequence(weights.config(), request(start));
    Engine(model, std::move(options)).run(sequence, {}, {}, CancelToken{});
    seen.ids = sequence.ids();
    return seen;
  }
};

TEST_F(LostExpert, EndsTheSequencesThatNeedItWithTheCauseAndNoOthers) {
  const Alone unlucky = alone(1), lucky = alone(2);
  const auto files = open_checkpoint_experts(test::mini_model());
  // Experts are small and shards alike, so a lost page belongs to several of them.
  const auto page_of = [&](const std::pair<int, std::uint32_t>& one) {
    return files->place(static_cast<std::uint64_t>(one.first), one.second).offset / 4096 * 4096;
  };
  std::set<std::uint64_t> only_unlucky, needed_by_lucky;
  for (const auto& one : lucky.experts) needed_by_lucky.insert(page_of(one));
  for (const auto& one : unlucky.experts) {
    if (!needed_by_lucky.contains(page_of(one))) only_unlucky.insert(page_of(one));
  }
  ASSERT_FALSE(only_unlucky.empty()) << "the two sequences need the same pages";
  const std::uint64_t lost = *only_unlucky.begin();

  StreamedOptions options;
  options.slots = 4;
  const auto experts =
      stream(std::move(options), {.most_microseconds = 0, .fate = [lost](std::uint64_t offset, unsigned) {
                                    return offset == lost ? EIO : 0;
                                  }});
  const LoadedModel& weights = test::mini_weights();
  const Model model(weights.config(), weights.text(), *experts, fast_ops());
  Sequence first(weights.config(), request(1)), second(weights.config(), request(2));
  const std::array<Sequence*, 2> both = {&first, &second};
  const Engine engine(model, {});
  while (!first.finished() || !second.finished()) engine.step(both);
  EXPECT_EQ(second.ids(), lucky.ids);
  EXPECT_EQ(second.end(), GenerationEnd::kMaxTokens);
  ASSERT_EQ(first.end(), GenerationEnd::kFailed);
  try {
    std::rethrow_exception(first.failure());
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("Input/output error"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr(".safetensors at byte"));
  }
}

TEST_F(LostExpert, ThrowsItsCauseWhereNobodyListens) {
  StreamedOptions options;
  const auto experts = stream(std::move(options),
                              {.most_microseconds = 0, .fate = [](std::uint64_t, unsigned) { return EIO; }});
  EXPECT_THROW(hash_with(*experts, fast_ops()), ExpertUnavailable);
}

}  // namespace
}  // namespace perigee
