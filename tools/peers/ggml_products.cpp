// How fast ggml, llama.cpp's library, multiplies matrices of K3's shapes by a few tokens, in bytes of weights
// a second: the same products as bench/compute_bench.cpp does with Perigee's kernels, over as many matrices,
// so that no cache holds them. One line of JSON a product. Uses ggml's headers only; no code of it is in
// here.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

namespace {

constexpr std::size_t kMemory = std::size_t{768} << 20;
constexpr int kMostTokens = 64;

struct Product {
  const char* name;
  ggml_type type;
  std::int64_t rows, columns;
  bool repacked;  // in the order that ggml's kernels for this processor like best, as models are loaded
};

template <auto Free>
struct Deleter {
  void operator()(auto* pointer) const { Free(pointer); }
};
using Context = std::unique_ptr<ggml_context, Deleter<ggml_free>>;
using Buffer = std::unique_ptr<ggml_backend_buffer, Deleter<ggml_backend_buffer_free>>;
using Backend = std::unique_ptr<ggml_backend, Deleter<ggml_backend_free>>;

Context make_context(std::size_t tensors) {
  return Context(ggml_init(
      {tensors * ggml_tensor_overhead() + ggml_graph_overhead_custom(tensors, false), nullptr, true}));
}

ggml_backend_buffer_type_t repacking_buffers(ggml_backend_t backend) {
  const ggml_backend_dev_t device = ggml_backend_get_device(backend);
  using Get = ggml_backend_buffer_type_t* (*)(ggml_backend_dev_t);
  const auto get = reinterpret_cast<Get>(ggml_backend_reg_get_proc_address(
      ggml_backend_dev_backend_reg(device), "ggml_backend_dev_get_extra_bufts"));
  for (auto* type = get == nullptr ? nullptr : get(device); type != nullptr && *type != nullptr; ++type) {
    if (std::string(ggml_backend_buft_name(*type)).find("REPACK") != std::string::npos) return *type;
  }
  throw std::runtime_error("this ggml does not repack");
}

// Any byte is a pair of nibbles; as a scale or an upper half of a bf16 number it stays small.
std::vector<std::uint8_t> weight_bytes(std::size_t size) {
  std::vector<std::uint8_t> bytes(size);
  std::uint32_t state = 1;
  for (std::uint8_t& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<std::uint8_t>((state >> 24 & 0x0F) | 0x30);
  }
  return bytes;
}

// Time on the wall where nobody else uses the processor.
double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

class Products {
 public:
  Products(const Product& product, ggml_backend_t backend) : product_(product), backend_(backend) {
    const std::size_t size =
        ggml_row_size(product.type, product.columns) * static_cast<std::size_t>(product.rows);
    const std::size_t count = kMemory / size;
    context_ = make_context(count);
    for (std::size_t i = 0; i < count; ++i)
      weights_.push_back(ggml_new_tensor_2d(context_.get(), product.type, product.columns, product.rows));
    buffer_.reset(ggml_backend_alloc_ctx_tensors_from_buft(
        context_.get(),
        product.repacked ? repacking_buffers(backend) : ggml_backend_get_default_buffer_type(backend)));
    if (buffer_ == nullptr) throw std::runtime_error("no memory for the weights");
    const std::vector<std::uint8_t> bytes = weight_bytes(size);
    for (ggml_tensor* weight : weights_) ggml_backend_tensor_set(weight, bytes.data(), 0, size);
    bytes_ = size * count;
  }

  // Weight bytes a CPU second with every matrix multiplied once; the best of `rounds`.
  double rate(int tokens, int rounds) const {
    const Context context = make_context(3 * weights_.size() + 2);
    ggml_tensor* x = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, product_.columns, tokens);
    ggml_cgraph* graph = ggml_new_graph_custom(context.get(), weights_.size() + 1, false);
    for (ggml_tensor* weight : weights_)
      ggml_build_forward_expand(graph, ggml_mul_mat(context.get(), weight, x));
    const Buffer buffer(ggml_backend_alloc_ctx_tensors(context.get(), backend_));
    std::vector<float> values(static_cast<std::size_t>(product_.columns) * static_cast<std::size_t>(tokens));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(i * 2654435761u % 2048) / 1024 - 1;
    ggml_backend_tensor_set(x, values.data(), 0, values.size() * sizeof(float));
    double best = 1e30;
    for (int round = 0; round < rounds; ++round) {
      const double begin = cpu_seconds();
      if (ggml_backend_graph_compute(backend_, graph) != GGML_STATUS_SUCCESS)
        throw std::runtime_error("ggml failed");
      best = std::min(best, cpu_seconds() - begin);
    }
    return static_cast<double>(bytes_) / best;
  }

 private:
  Product product_;
  ggml_backend_t backend_;
  Context context_;
  Buffer buffer_;
  std::vector<ggml_tensor*> weights_;
  std::size_t bytes_ = 0;
};

void measure(int rounds) {
  ggml_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  const Backend backend(ggml_backend_cpu_init());
  ggml_backend_cpu_set_n_threads(backend.get(), 1);
  for (const Product& product : {Product{"expert", GGML_TYPE_MXFP4, 3072, 3584, true},
                                 Product{"expert", GGML_TYPE_MXFP4, 3072, 3584, false},
                                 Product{"latent_down", GGML_TYPE_BF16, 3584, 7168, false}}) {
    const Products products(product, backend.get());
    for (int tokens = 1; tokens <= kMostTokens; tokens *= 8) {
      const double rate = products.rate(tokens, rounds);
      const double macs = rate / ggml_row_size(product.type, product.columns) * product.columns * tokens;
      std::printf(
          "{\"product\": \"%s/%s%s\", \"tokens\": %d, \"weight_gigabytes_per_second\": %.3f, "
          "\"giga_mac_per_second\": %.2f}\n",
          product.name, ggml_type_name(product.type), product.repacked ? " repacked" : "", tokens, rate / 1e9,
          macs / 1e9);
      std::fflush(stdout);
    }
  }
}

}  // namespace

// ggml_products [ROUNDS]
int main(int argc, char** argv) {
  try {
    measure(argc > 1 ? std::stoi(argv[1]) : 5);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ggml_products: %s\n", error.what());
    return 1;
  }
}
