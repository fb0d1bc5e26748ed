#pragma once

// Operators that LibTorch has for GPUs alone, or that a GPU computes more exactly than the CPU's
// kernel of the same name: each as the CPU computes the whole of it.

#include <torch/library.h>

namespace fake_gpu {

void add_convolutions(torch::Library&);  // cuDNN's
void add_norms(torch::Library&);         // cuDNN's batch norm
void add_shared_norms(torch::Library&);  // its parts, for norms over ranks
void add_lstm(torch::Library&);          // cuDNN's layer, and LibTorch's cell
void add_products(torch::Library&);      // of float16 and bfloat16, which add up in float32
void add_copies(torch::Library&);        // within a GPU

}  // namespace fake_gpu
