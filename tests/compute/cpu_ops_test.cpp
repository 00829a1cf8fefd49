// Every backend of this machine, with one to three threads and in both precisions, gives ReferenceOps' bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "compute/ops.h"
#include "compute/ops_cases.h"
#include "compute/reference/reference_ops.h"

namespace perigee {
namespace {

using Choice = std::tuple<std::string, Precision, unsigned>;

class Backends : public ::testing::TestWithParam<Choice> {
 protected:
  Backends()
      : ops_(make_ops({std::get<1>(GetParam()), std::get<2>(GetParam()), std::get<0>(GetParam())})),
        reference_(std::get<1>(GetParam())) {}
  std::unique_ptr<Ops> ops_;
  ReferenceOps reference_;
};

TEST_P(Backends, TellTheirNameAndPrecision) {
  EXPECT_EQ(ops_->name(), std::get<0>(GetParam()));
  EXPECT_EQ(ops_->precision(), std::get<1>(GetParam()));
}
TEST_P(Backends, Linear) {
  test::check_linear(*ops_, reference_);
}
TEST_P(Backends, LinearWithManyTokens) {
  test::check_linear_with_many_tokens(*ops_, reference_);
}
TEST_P(Backends, LinearWithExtremeValues) {
  test::check_linear_with_extreme_values(*ops_, reference_);
}
TEST_P(Backends, Norms) {
  test::check_norms(*ops_, reference_);
}
TEST_P(Backends, Elementwise) {
  test::check_elementwise(*ops_, reference_);
}
TEST_P(Backends, ElementaryFunctionsOverTheirWholeRange) {
  test::check_elementary_ranges(*ops_, reference_);
}
TEST_P(Backends, AttentionResidual) {
  test::check_attention_residual(*ops_, reference_);
}
TEST_P(Backends, ShortConvolution) {
  test::check_short_convolution(*ops_, reference_);
}
TEST_P(Backends, Kda) {
  test::check_kda(*ops_, reference_);
}
TEST_P(Backends, Mla) {
  test::check_mla(*ops_, reference_);
}
TEST_P(Backends, RouterAndEmbedding) {
  test::check_router_and_embedding(*ops_, reference_);
}

std::vector<Choice> choices() {
  std::vector<std::string> names = available_backends();
  names.erase(names.begin());  // the reference itself
  std::vector<Choice> all;
  for (const std::string& name : names) {
    all.emplace_back(name, Precision::kBf16, 1);
    all.emplace_back(name, Precision::kF32, 2);
    all.emplace_back(name, Precision::kBf16, 3);
  }
  return all;
}

std::string test_name(const ::testing::TestParamInfo<Choice>& info) {
  std::string name = std::get<0>(info.param);
  std::replace(name.begin(), name.end(), '-', '_');
  return name + (std::get<1>(info.param) == Precision::kBf16 ? "_bf16_" : "_f32_") +
         std::to_string(std::get<2>(info.param));
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Backends);  // a processor without AVX2
INSTANTIATE_TEST_SUITE_P(All, Backends, ::testing::ValuesIn(choices()), test_name);

TEST(MakeOps, TakesTheFastestBackendUnlessToldAnother) {
  EXPECT_EQ(available_backends().front(), "reference");
  EXPECT_EQ(make_ops({})->name(), available_backends().back());
  EXPECT_EQ(make_ops({Precision::kF32, 1, "reference"})->name(), "reference");
}

TEST(MakeOps, NamesTheBackendsThereAreWhenAskedForAnother) {
  try {
    make_ops({Precision::kBf16, 1, "abacus"});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("abacus"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("reference"), std::string::npos);
  }
}

}  // namespace
}  // namespace perigee
