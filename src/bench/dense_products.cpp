#include "bench/dense_products.h"

#ifdef PERIGEE_ONEDNN
#include <omp.h>

#include <cstring>
#include <dnnl.hpp>
#include <unordered_map>
#include <vector>

#include "numerics/bf16.h"
#include "synth/random.h"
#endif

namespace perigee {

#ifdef PERIGEE_ONEDNN
namespace {

// oneDNN's handles count references, so copies are cheap.
class OneDnnProduct : public DenseProduct {
 public:
  OneDnnProduct(dnnl::memory::data_type type, dnnl::memory::dim tokens, dnnl::memory::dim rows,
                dnnl::memory::dim columns, unsigned threads)
      : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_), threads_(threads) {
    using Tag = dnnl::memory::format_tag;
    const dnnl::memory::desc x({tokens, columns}, type, Tag::ab);
    const dnnl::memory::desc any({columns, rows}, type, Tag::any);
    const dnnl::memory::desc y({tokens, rows}, dnnl::memory::data_type::f32, Tag::ab);
    ::omp_set_num_threads(static_cast<int>(threads_));
    const dnnl::matmul::primitive_desc how(dnnl::matmul::desc(x, any, y), engine_);
    product_ = dnnl::matmul(how);
    arguments_ = {{DNNL_ARG_SRC, filled(x)},
                  {DNNL_ARG_WEIGHTS, filled(how.weights_desc())},
                  {DNNL_ARG_DST, dnnl::memory(y, engine_)}};
  }

  void run() override {
    ::omp_set_num_threads(static_cast<int>(threads_));
    product_.execute(stream_, arguments_);
    stream_.wait();
  }

 private:
  // Small normal numbers, whatever the layout; padding may hold some too, and it is only a measurement.
  dnnl::memory filled(const dnnl::memory::desc& desc) const {
    dnnl::memory memory(desc, engine_);
    auto* bytes = static_cast<std::byte*>(memory.get_data_handle());
    const bool bf16 = desc.data_type() == dnnl::memory::data_type::bf16;
    const std::size_t size = bf16 ? sizeof(std::uint16_t) : sizeof(float);
    for (std::size_t i = 0; i < desc.get_size() / size; ++i) {
      const auto bits =
          static_cast<std::uint16_t>((synth::random_bits(1, i) & 0x81FF) | 0x3A00);  // 2^-11 to 2^-7
      const float value = bf16_value(bits);
      std::memcpy(bytes + i * size, bf16 ? static_cast<const void*>(&bits) : &value, size);
    }
    return memory;
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
  unsigned threads_;
  dnnl::matmul product_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

}  // namespace

std::unique_ptr<DenseProduct> make_dense_product(WeightFormat format, std::size_t tokens, std::size_t rows,
                                                 std::size_t columns, unsigned threads) {
  using Dim = dnnl::memory::dim;
  const auto type =
      format == WeightFormat::kBf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
  try {
    return std::make_unique<OneDnnProduct>(type, static_cast<Dim>(tokens), static_cast<Dim>(rows),
                                           static_cast<Dim>(columns), threads);
  } catch (const dnnl::error&) {  // e.g. no bf16 on this processor
    return nullptr;
  }
}

const char* dense_product_version() {
  static const std::string kVersion = [] {
    const dnnl_version_t* version = dnnl::version();
    return std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
           std::to_string(version->patch);
  }();
  return kVersion.c_str();
}

#else

std::unique_ptr<DenseProduct> make_dense_product(WeightFormat, std::size_t, std::size_t, std::size_t,
                                                 unsigned) {
  return nullptr;
}

const char* dense_product_version() {
  return nullptr;
}

#endif

}  // namespace perigee
