#pragma once

// One binary for all machines: a loop marked so also exists for AVX2, picked at load time. Same operations, same bits.
#if defined(__x86_64__) && defined(__ELF__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define DTRAIN_ROW_LOOP __attribute__((target_clones("avx2", "default")))
#else
#define DTRAIN_ROW_LOOP
#endif
