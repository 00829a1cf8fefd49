// Everything between this header and target_end.h is compiled for AVX2 and FMA. Only functions without
// external linkage may stand there, so that the linker cannot pick one for everybody; no header of another
// room and no standard header may be included there.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
