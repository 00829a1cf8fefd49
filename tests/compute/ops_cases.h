// Every op of one backend against ReferenceOps, bit for bit. A header, because the backends of this machine
// and the AVX-512 sources over SIMDe go through the same cases.
#pragma once

#include "compute/ops.h"

namespace perigee::test {

void check_linear(const Ops& ops, const Ops& reference);
void check_linear_with_many_tokens(const Ops& ops, const Ops& reference);
void check_linear_with_extreme_values(const Ops& ops, const Ops& reference);
void check_norms(const Ops& ops, const Ops& reference);
void check_elementwise(const Ops& ops, const Ops& reference);
void check_elementary_ranges(const Ops& ops, const Ops& reference);
void check_attention_residual(const Ops& ops, const Ops& reference);
void check_short_convolution(const Ops& ops, const Ops& reference);
void check_kda(const Ops& ops, const Ops& reference);
void check_mla(const Ops& ops, const Ops& reference);
void check_router_and_embedding(const Ops& ops, const Ops& reference);

}  // namespace perigee::test
