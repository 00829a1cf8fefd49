// Every mistake that a port of K3 is known to have made, made on purpose: our comparison with the golden
// would notice each, by as much as the golden's authors measured (tests/model/k3_mini_test.cpp has the
// bounds).
#include <functional>

#include "model/k3_mini_fixture.h"
#include "model/mistaken_kda.h"
#include "model/mistaken_ops.h"
#include "model/second_pass.h"

namespace perigee {
namespace {

using test::KdaMistake;
using test::PassMistake;
using test::RouterMistake;

// Ten times the noise, 1.3e-5; the bound on the median row of k3_mini_test.cpp is lower.
constexpr double kNoticed = 1.3e-4;

using OpsPtr = std::unique_ptr<Ops>;
using OpsMaker = std::function<OpsPtr(const Ops& inner, const LoadedModel& model)>;
using ExpertMaker = std::function<std::unique_ptr<ExpertSource>(ExpertSource& inner)>;

struct Mistake {
  std::string name;
  double effect;  // recorded with the golden: relative L2 of all logits of `medium`; 0: not recorded
  OpsMaker ops = nullptr;
  PassMistake pass = PassMistake::kNone;
  ExpertMaker experts = nullptr;
};

void PrintTo(const Mistake& mistake, std::ostream* stream) {  // NOLINT: GoogleTest's name
  *stream << mistake.name;
}

template <typename Made, typename... Arguments>
OpsMaker made(Arguments... arguments) {
  return [=](const Ops& inner, const LoadedModel&) { return std::make_unique<Made>(inner, arguments...); };
}
OpsMaker kda(KdaMistake mistake) {
  return made<test::MistakenKda>(mistake);
}
OpsMaker router(RouterMistake mistake) {
  return made<test::MistakenRouter>(mistake);
}
OpsMaker routed_norm(bool before) {
  return [=](const Ops& inner, const LoadedModel& model) {
    return std::make_unique<test::MistakenRoutedNorm>(inner, model, before);
  };
}
OpsPtr gate_reads_residual(const Ops& inner, const LoadedModel& model) {
  return std::make_unique<test::GateReadsResidual>(inner, model.text());
}
OpsPtr beta_off(const Ops& inner, const LoadedModel& model) {
  return std::make_unique<test::BetaTwoPercentOff>(inner, model.config().kda_num_heads);
}
OpsPtr lora_norms_with_layer_eps(const Ops& inner, const LoadedModel&) {
  return std::make_unique<test::OtherEps>(inner, 0, 1e-6f, 1e-5f);
}
OpsPtr layer_norms_with_lora_eps(const Ops& inner, const LoadedModel& model) {
  return std::make_unique<test::OtherEps>(inner, model.config().hidden_size, 1e-5f, 1e-6f);
}
template <typename Made>
std::unique_ptr<ExpertSource> wrapped(ExpertSource& inner) {
  return std::make_unique<Made>(inner);
}

const std::vector<Mistake>& mistakes() {
  static const std::vector<Mistake> all = {
      {"ALogPerChannel", 0.80, kda(KdaMistake::kRatePerChannel)},
      {"DtBiasOutsideTheFactor", 0.82, kda(KdaMistake::kBiasOutside)},
      {"SoftplusGate", 0.87, kda(KdaMistake::kSoftplusGate)},
      {"DecayAfterTheUpdate", 0.97, kda(KdaMistake::kDecayAfterUpdate)},
      {"QueryScaledBeforeItsNorm", 0.70, kda(KdaMistake::kScaleBeforeNorm)},
      {"NoQueryAndKeyNorm", 1.04, kda(KdaMistake::kNoNorm)},
      {"BetaTwoPercentOff", 0.15, beta_off},
      {"TapsReversed", 1.07, made<test::TapsReversed>()},
      {"ConvolutionWithoutSilu", 1.05, made<test::ConvolutionWithoutSilu>()},
      {"KdaGateSilu", 1.02, made<test::SiluOutputGate>()},
      {"GateBeforeTheNorm", 0.84, made<test::GateBeforeNorm>()},
      {"GateReadsTheResidual", 0, gate_reads_residual},
      {"LoraNormsWithLayerEps", 0.20, lora_norms_with_layer_eps},
      // Recorded as 2.7e-4; we find 3.4e-4 over the golden's rows, but more where experts change.
      {"LayerNormsWithLoraEps", 0, layer_norms_with_lora_eps},
      {"Rotary", 0.49, made<test::Rotary>()},
      {"MlaScaleFromNopeOnly", 0.29, made<test::MlaScaleFromNopeOnly>()},
      {"NoMlaGate", 0.66, made<test::NoMlaGate>()},
      {"WeightsFromBiasedScores", 0.23, router(RouterMistake::kBiasedWeights)},
      {"SelectionWithoutBias", 0.72, router(RouterMistake::kNoBias)},
      {"SoftmaxRouterWeights", 0.67, router(RouterMistake::kSoftmax)},
      {"RoutedNormBeforeTheExperts", 0.90, routed_norm(true)},
      {"RoutedNormMissing", 0.88, routed_norm(false)},
      {"SituWithoutTanhOnUp", 0.19, made<test::SituWithoutTanhOnUp>()},
      {"SiluInsteadOfSitu", 0.70, made<test::SiluInsteadOfSitu>()},
      {"MixOfNormedSources", 1.06, made<test::MixOfNormedSources>()},
      {"ScoresWithoutNormWeight", 0.81, made<test::ScoresWithoutNormWeight>()},
      {"NoFinalResidual", 1.12, nullptr, PassMistake::kNoFinalResidual},
      {"BlockStartOffByOne", 1.08, nullptr, PassMistake::kBlockStartOffByOne},
      {"PrefixNotReset", 1.03, nullptr, PassMistake::kPrefixNotReset},
      {"ResidualWrittenOverThePrefix", 0, nullptr, PassMistake::kResidualWrittenOverThePrefix},
      {"GateAndUpSwapped", 0.82, nullptr, PassMistake::kNone, wrapped<test::SwappedExperts>},
      {"NibblesSwapped", 0.89, nullptr, PassMistake::kNone, wrapped<test::SwappedNibbles>},
  };
  return all;
}

class K3MiniMistakes : public test::K3Mini, public ::testing::WithParamInterface<Mistake> {
 protected:
  static Tensor logits_with(const Mistake& mistake, const std::string& prompt,
                            const ForwardOptions& options = {}) {
    const OpsPtr mistaken = mistake.ops ? mistake.ops(ops(Precision::kF32), weights()) : nullptr;
    const auto experts = mistake.experts ? mistake.experts(weights().experts()) : nullptr;
    const Ops& used = mistaken ? *mistaken : ops(Precision::kF32);
    ExpertSource& source = experts ? *experts : weights().experts();
    return test::SecondPass(weights(), used, source, mistake.pass).logits(golden().prompt(prompt), options);
  }
  // Of the golden's rows together.
  static double error_of(const Tensor& logits, const std::string& prompt) {
    const Tensor expected = golden().tensor(fmt::format("f32.{}.logits", prompt));
    const std::vector<std::size_t> rows = golden().logit_rows(prompt);
    Tensor found(rows.size(), logits.width());
    for (std::size_t i = 0; i < rows.size(); ++i) std::copy_n(logits[rows[i]], logits.width(), found[i]);
    return test::relative_l2(found[0], expected[0], expected.values().size());
  }
};

TEST_P(K3MiniMistakes, IsNoticed) {
  const Tensor logits = logits_with(GetParam(), "medium");
  EXPECT_GT(error_of(logits, "medium"), kNoticed);
  const Tensor& right = f32_run("medium").logits;
  const double effect = test::relative_l2(logits[0], right[0], right.values().size());
  RecordProperty("effect", fmt::format("{:.3g}", effect));
  if (GetParam().effect == 0) return;
  EXPECT_NEAR(effect / GetParam().effect, 1, 0.2);
}

std::string mistake_name(const ::testing::TestParamInfo<Mistake>& test) {
  return test.param.name;
}

INSTANTIATE_TEST_SUITE_P(Of, K3MiniMistakes, ::testing::ValuesIn(mistakes()), mistake_name);

// Otherwise what is measured above would not be the mistakes.
TEST_F(K3MiniMistakes, TheSeamsAloneChangeNothing) {
  const Tensor& right = f32_run("short").logits;
  const Tensor second = logits_with({"None", 0}, "short");
  EXPECT_TRUE(std::equal(right.values().begin(), right.values().end(), second.values().begin()));
  EXPECT_LE(error_of(logits_with({"Kda", 0, kda(KdaMistake::kNone)}, "short"), "short"), 2e-5);
}

// The routed norm removes a common factor, so only the weights themselves show it.
TEST_F(K3MiniMistakes, NoRenormalisationIsNoticedInTheWeightsAlone) {
  std::map<int, std::vector<RoutedToken>> routing;
  ForwardOptions options;
  options.observe_routing = [&](int layer, std::span<const RoutedToken> routed) {
    routing[layer].assign(routed.begin(), routed.end());
  };
  const Mistake mistake = {"NoRenormalisation", 0, router(RouterMistake::kNoRenormalisation)};
  EXPECT_LT(error_of(logits_with(mistake, "short", options), "short"), 3e-4);
  const Tensor expected = golden().tensor("f32.short.layers.1.expert_weights");
  for (std::size_t t = 0; t < expected.rows(); ++t)
    EXPECT_GT(test::relative_l2(routing[1][t].weights.data(), expected[t], expected.width()), 0.1) << t;
}

}  // namespace
}  // namespace perigee
