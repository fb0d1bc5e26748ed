#pragma once

// Marks for functions that are compiled for several processors.

// DTRAIN_HD: for the CPU and, in .cu files, also for the GPU, so that tests on the CPU
// cover the arithmetic of both.
#ifdef __CUDACC__
#define DTRAIN_HD __host__ __device__
#else
#define DTRAIN_HD
#endif

// DTRAIN_ROW_LOOP: once for AVX2 and once for any x86-64; the better one is chosen when the program
// is loaded, so that one binary serves all machines. Both do the same operations with the
// same bits.
#if defined(__x86_64__) && defined(__ELF__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define DTRAIN_ROW_LOOP __attribute__((target_clones("avx2", "default")))
#else
#define DTRAIN_ROW_LOOP
#endif
