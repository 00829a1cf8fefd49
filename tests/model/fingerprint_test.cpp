#include "model/fingerprint.h"

#include <gtest/gtest.h>

#include "model/edit_checkpoint.h"
#include "support/mini_model.h"

namespace perigee {
namespace {

std::string fingerprint_of(const std::filesystem::path& checkpoint, Precision precision = Precision::kBf16) {
  return model_fingerprint(LoadedModel::load(checkpoint, {}), precision);
}

std::string fingerprint_with_changed(const std::string& tensor) {
  const test::TempDir folder;
  test::MiniTensors tensors = test::read_checkpoint(test::mini_model());
  tensors.at(tensor).data.front() ^= std::byte{1};
  test::write_checkpoint(folder.path(), test::mini_model() / "config.json", tensors);
  return fingerprint_of(folder.path());
}

TEST(ModelFingerprint, IsThatOfTheWeightsWhereverTheyLie) {
  const test::TempDir folder;
  test::write_checkpoint(folder.path(), test::mini_model() / "config.json",
                         test::read_checkpoint(test::mini_model()));
  const std::string fingerprint = fingerprint_of(test::mini_model());
  EXPECT_EQ(fingerprint.size(), 16u);
  EXPECT_EQ(fingerprint_of(folder.path()), fingerprint);
}

TEST(ModelFingerprint, TellsThePrecision) {
  EXPECT_NE(fingerprint_of(test::mini_model(), Precision::kF32), fingerprint_of(test::mini_model()));
}

TEST(ModelFingerprint, ChangesWithEveryKindOfTensor) {
  const std::string fingerprint = fingerprint_of(test::mini_model());
  const std::string layer = "language_model.model.layers.";
  for (const std::string& tensor : {
           std::string("language_model.model.embed_tokens.weight"),
           std::string("language_model.lm_head.weight"),
           std::string("language_model.model.norm.weight"),
           layer + "0.self_attn.q_proj.weight",
           layer + "0.self_attn.dt_bias",
           layer + "3.self_attn.kv_b_proj.weight",
           layer + "1.block_sparse_moe.gate.e_score_correction_bias",
           layer + "1.block_sparse_moe.shared_experts.up_proj.weight",
           layer + "1.block_sparse_moe.experts.0.w2.weight_packed",
           layer + "5.block_sparse_moe.experts.0.w1.weight_packed",
       }) {
    EXPECT_NE(fingerprint_with_changed(tensor), fingerprint) << tensor;
  }
}

}  // namespace
}  // namespace perigee
