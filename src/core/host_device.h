#pragma once

// Marks a function whose one body serves the CPU and the GPU, so that the CPU's tests test the GPU's arithmetic.

#ifdef __CUDACC__
#define DTRAIN_HD __host__ __device__
#else
#define DTRAIN_HD
#endif
