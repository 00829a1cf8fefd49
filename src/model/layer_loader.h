// Which tensors make one layer (docs/model.md, "Tensor names"), and where each goes. The whole model and a
// single layer are loaded by the same list.
#pragma once

#include <cstdint>

#include "checkpoint/config.h"
#include "model/tensor_reader.h"
#include "model/weights.h"

namespace perigee {

class LayerLoader {
 public:
  // Keeps references. What is planned into must stay where it is until the reader has read.
  LayerLoader(const K3Config& config, TensorReader& reader) : config_(config), reader_(reader) {}

  // All but the routed experts.
  void want_layer(std::uint64_t layer, LayerWeights& w);
  void want_expert(std::uint64_t layer, std::uint64_t expert, ExpertWeights& w);
  // After the reader has read.
  void finish_layer(std::uint64_t layer, LayerWeights& w) const;

  void matrix(const std::string& module, std::uint64_t rows, std::uint64_t columns, Matrix& m) {
    reader_.want_matrix(module, rows, columns, m);
  }
  void norm(const std::string& module, Vector& v) { vector(module + ".weight", {config_.hidden_size}, v); }
  void residual_proj(const std::string& module, Vector& v) {
    vector(module + ".weight", {1, config_.hidden_size}, v);
  }

 private:
  using Shape = std::vector<std::uint64_t>;

  void vector(const std::string& name, const Shape& shape, Vector& v) {
    reader_.want_vector(name, {shape}, v);
  }
  void want_kda(const std::string& prefix, KdaWeights& w);
  void want_mla(const std::string& prefix, MlaWeights& w);
  void want_mlp(const std::string& prefix, std::uint64_t width, MlpWeights& w);
  void want_moe(const std::string& prefix, MoeWeights& w);

  const K3Config& config_;
  TensorReader& reader_;
};

// kNoSpace with the bytes that are needed, if they are more than `limit`, or than what the machine has
// available if that is 0.
void check_memory(std::uint64_t needed, std::uint64_t limit);

}  // namespace perigee
