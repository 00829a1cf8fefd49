// e^x, tanh, sigmoid and log as this program defines them: a fixed sequence of IEEE additions,
// multiplications, fused multiply-adds and divisions, so that every instruction set, library and compiler
// gives the same bits (docs/numerics.md). Not the C library's, whose last bit depends on its version.
#pragma once

namespace perigee {

// At most 1 ulp from the exact value; subnormal results are kept, overflow gives infinity, NaN stays NaN.
float exact_exp(float x);
// 1 / (1 + e^-x), at most 2.5 ulp.
float exact_sigmoid(float x);
// At most 2 ulp; odd, except that tanh(-0) is +0.
float exact_tanh(float x);
// Natural logarithm of x > 0, at most 1 ulp; log(0) is -infinity, of a negative number NaN.
float exact_log(float x);

}  // namespace perigee
