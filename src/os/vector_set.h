#pragma once

// Which vector instructions this CPU has, for loops that are compiled once per set and choose at
// run time. Thread-safety: any thread.

#include <cstdint>

// Whether code for each of the sets can be compiled: with vector types and pragmas of GCC or Clang.
#if defined(__x86_64__) && defined(__GNUC__)
#define DTRAIN_X86_VECTORS
#endif

namespace dtrain {

// kAny: what every CPU of the architecture has. kAvx2: with FMA. kAvx512: F, VL, BW and DQ.
enum class VectorSet : uint8_t { kAny, kAvx2, kAvx512 };

// The widest set that this CPU has and that the environment variable ATEN_CPU_CAPABILITY allows.
// With that variable users limit LibTorch's loops; the limit holds for ours that stand in their
// place too.
VectorSet widest_vectors();

// What a value of that variable allows, as LibTorch reads it: "default", "avx2" or "avx512"; others
// (and nullptr) limit nothing. Pure.
VectorSet vectors_allowed_by(const char* aten_cpu_capability);

// AVX512-BF16 or AMX: matrix products of bfloat16 are faster than those of float32
bool has_bfloat16_products();

}  // namespace dtrain
