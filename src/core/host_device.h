#pragma once

// How one body is compiled for several processors.

// For the CPU, and in .cu files also for the GPU.
#ifdef __CUDACC__
#define DTRAIN_HD __host__ __device__
#else
#define DTRAIN_HD
#endif

// One binary for all machines: a loop with this mark also exists for AVX2 and is chosen at load time. Same operations,
// same bits.
#if defined(__x86_64__) && defined(__ELF__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define DTRAIN_ROW_LOOP __attribute__((target_clones("avx2", "default")))
#else
#define DTRAIN_ROW_LOOP
#endif
