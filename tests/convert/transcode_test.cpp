// From one NVFP4 layout to the other, and back to MXFP4, compared with direct conversions and with the
// source.
#include <gtest/gtest.h>

#include <cstring>

#include "base/file.h"
#include "convert_fixture.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace perigee {
namespace {

using test::golden;
using test::MiniTensors;

class Transcode : public testing::Test {
 protected:
  ConvertOutcome convert(const std::filesystem::path& source, const std::string& output, Layout layout,
                         Activations activations = Activations::kPlaceholder,
                         const std::function<void(ConvertOptions&)>& change = {}) {
    ConvertOptions options = test::convert_options(source, dir_ / output);
    options.layout = layout;
    options.activations = activations;
    if (change) change(options);
    return convert_checkpoint(options);
  }

  MiniTensors tensors(const std::string& output) const {
    return test::read_safetensors_folder(dir_ / output);
  }

  static void expect_same(const MiniTensors& a, const MiniTensors& b) {
    ASSERT_EQ(a.size(), b.size());
    for (const auto& [name, tensor] : a) {
      ASSERT_TRUE(b.contains(name)) << name;
      EXPECT_EQ(tensor.dtype, b.at(name).dtype) << name;
      EXPECT_EQ(tensor.shape, b.at(name).shape) << name;
      EXPECT_EQ(tensor.data, b.at(name).data) << name;
    }
  }

  test::TempDir dir_;
};

TEST_F(Transcode, ModelOptToCompressedTensorsIsTheDirectConversion) {
  convert(golden("source"), "modelopt", Layout::kModelOpt);
  EXPECT_TRUE(convert(dir_ / "modelopt", "turned", Layout::kCompressedTensors).report.lossless());
  convert(golden("source"), "direct", Layout::kCompressedTensors);
  expect_same(tensors("turned"), tensors("direct"));
}

TEST_F(Transcode, CompressedTensorsToModelOptIsTheDirectConversion) {
  convert(golden("source"), "ct", Layout::kCompressedTensors, Activations::kNone);
  EXPECT_TRUE(convert(dir_ / "ct", "turned", Layout::kModelOpt).report.lossless());
  convert(golden("source"), "direct", Layout::kModelOpt);
  expect_same(tensors("turned"), tensors("direct"));
}

TEST_F(Transcode, DropsInputScalesWhenNoneAreWanted) {
  convert(golden("source"), "with", Layout::kModelOpt);
  convert(dir_ / "with", "without", Layout::kModelOpt, Activations::kNone);
  convert(golden("source"), "direct", Layout::kModelOpt, Activations::kNone);
  expect_same(tensors("without"), tensors("direct"));
}

// Zero groups whose scale byte is outside the window come back with the nearest byte inside it: still zero.
void expect_released_form(const MiniTensors& again) {
  const MiniTensors source = test::read_safetensors_folder(golden("source"));
  ASSERT_EQ(again.size(), source.size());
  std::size_t scales_that_differ = 0;
  for (const auto& [name, tensor] : source) {
    ASSERT_TRUE(again.contains(name)) << name;
    const test::MiniTensor& back = again.at(name);
    EXPECT_EQ(back.shape, tensor.shape) << name;
    EXPECT_EQ(back.dtype, tensor.dtype) << name;
    if (!name.ends_with("weight_scale")) {
      EXPECT_EQ(back.data, tensor.data) << name;
      continue;
    }
    const std::string module = name.substr(0, name.size() - std::string(".weight_scale").size());
    const std::vector<std::byte>& nibbles = source.at(module + ".weight_packed").data;
    for (std::size_t group = 0; group < tensor.data.size(); ++group) {
      if (back.data[group] == tensor.data[group]) continue;
      ++scales_that_differ;
      for (std::size_t i = 0; i < 16; ++i) {
        EXPECT_EQ(nibbles[group * 16 + i] & std::byte{0x77}, std::byte{0}) << module << " group " << group;
      }
    }
  }
  EXPECT_LT(scales_that_differ, 28U);  // the golden has 27 zero groups
}

TEST_F(Transcode, BackToMxfp4GivesTheReleasedTensors) {
  convert(golden("source"), "modelopt", Layout::kModelOpt);
  convert(dir_ / "modelopt", "mxfp4", Layout::kMxfp4);
  expect_released_form(tensors("mxfp4"));
  convert(golden("source"), "ct", Layout::kCompressedTensors);
  convert(dir_ / "ct", "mxfp4-2", Layout::kMxfp4);
  expect_released_form(tensors("mxfp4-2"));
}

TEST_F(Transcode, RequantisedFilesCannotGoBackToMxfp4) {
  convert(golden("source"), "requantised", Layout::kModelOpt, Activations::kPlaceholder,
          [](ConvertOptions& options) { options.policy.method = Method::kRequant; });
  EXPECT_ERROR(convert(dir_ / "requantised", "back", Layout::kMxfp4), ErrorCode::kLossy, "lossless cast");
}

TEST_F(Transcode, AnInexactReciprocalNeedsConsent) {
  convert(golden("source"), "requantised", Layout::kModelOpt, Activations::kPlaceholder,
          [](ConvertOptions& options) { options.policy.method = Method::kRequant; });
  EXPECT_ERROR(convert(dir_ / "requantised", "turned", Layout::kCompressedTensors), ErrorCode::kLossy,
               "--inexact-scale round");
  std::filesystem::remove_all(dir_ / "turned");
  const ConvertOutcome outcome = convert(dir_ / "requantised", "turned", Layout::kCompressedTensors,
                                         Activations::kPlaceholder, [](ConvertOptions& options) {
                                           options.inexact_scale = InexactScale::kRound;
                                           options.verify = VerifyMode::kNone;
                                         });
  EXPECT_FALSE(outcome.report.lossless());
  const MiniTensors before = tensors("requantised");
  for (const auto& [name, tensor] : tensors("turned")) {
    if (!name.ends_with(".weight_global_scale")) continue;
    const std::string module = name.substr(0, name.size() - std::string(".weight_global_scale").size());
    float divisor = 0;
    float multiplier = 0;
    std::memcpy(&divisor, tensor.data.data(), 4);
    std::memcpy(&multiplier, before.at(module + ".weight_scale_2").data.data(), 4);
    EXPECT_EQ(divisor, 1.0F / multiplier) << module;
  }
}

TEST_F(Transcode, Fp8AttentionStaysInItsLayout) {
  convert(golden("source"), "mixed", Layout::kNvidiaMixed);
  EXPECT_ERROR(convert(dir_ / "mixed", "ct", Layout::kCompressedTensors), ErrorCode::kUnsupported,
               "only --layout nvidia-mixed");
}

TEST_F(Transcode, Mxfp4ToMxfp4IsRefused) {
  EXPECT_ERROR(convert(golden("source"), "same", Layout::kMxfp4), ErrorCode::kUsage, "MXFP4 already");
}

TEST_F(Transcode, BytesDoNotDependOnWorkersBackendOrMemory) {
  for (const Layout layout : {Layout::kModelOpt, Layout::kNvidiaMixed}) {
    const std::string name = layout_name(layout);
    convert(golden("source"), name + "1", layout, Activations::kPlaceholder, [](ConvertOptions& options) {
      options.jobs = 1;
      options.io = IoBackend::kThreads;
      options.io_depth = 1;
      options.memory_bytes = 1;
    });
    convert(golden("source"), name + "2", layout, Activations::kPlaceholder, [](ConvertOptions& options) {
      options.jobs = 5;
      options.io_depth = 9;
    });
    EXPECT_EQ(test::folder_contents(dir_ / (name + "1")), test::folder_contents(dir_ / (name + "2")));
  }
}

}  // namespace
}  // namespace perigee
