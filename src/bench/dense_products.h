// The yardstick for prompts: oneDNN's matrix product of the same shape, on dense weights in the layout that
// it likes best. Optional: a build without oneDNN measures without it.
#pragma once

#include <cstddef>
#include <memory>

#include "compute/matrix.h"

namespace perigee {

class DenseProduct {
 public:
  virtual ~DenseProduct() = default;
  virtual void run() = 0;  // on `threads` threads of OpenMP
};

// y[tokens, rows] = x[tokens, columns] W, weights and x in kF32 or kBf16, y in float32. Null if this build
// has no oneDNN, or if the machine has no such product.
std::unique_ptr<DenseProduct> make_dense_product(WeightFormat format, std::size_t tokens, std::size_t rows,
                                                 std::size_t columns, unsigned threads);

// "2.6.3"; nullptr if this build has none.
const char* dense_product_version();

}  // namespace perigee
