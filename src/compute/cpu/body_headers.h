// What the bodies of the kernels need from outside. Included before any target is set, so that what is inline
// in it is compiled for every processor.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "compute/cpu/cpu_kernels.h"
#include "numerics/bf16.h"
#include "numerics/canonical_dot.h"
#include "numerics/elementary.h"

#define PERIGEE_INLINE [[gnu::always_inline]] inline
// For loops that need all registers: what surrounds them then holds none.
#define PERIGEE_APART [[gnu::noinline]]
#define PERIGEE_LAMBDA __attribute__((always_inline))

// Makes the compiler hold a vector in a register.
#define PERIGEE_PIN(vector) asm("" : "+v"(vector))
// Makes it forget how an address came about.
#define PERIGEE_KEEP(address) asm("" : "+r"(address))
