// Loops over the registers of a micro-kernel are unrolled whole.
#pragma once

#if defined(__clang__)
#define WEFT_UNROLLED _Pragma("clang loop unroll(full)")
#else
#define WEFT_UNROLLED _Pragma("GCC unroll 16")
#endif
