#include "train/determinism.h"

#include <torch/torch.h>

#include <cstdlib>

namespace dtrain::train {

void apply_determinism(bool deterministic, bool cudnn_benchmark) {
  at::Context& context = at::globalContext();
  context.setBenchmarkCuDNN(cudnn_benchmark && !deterministic);
  context.setDeterministicCuDNN(deterministic);
  context.setDeterministicAlgorithms(deterministic, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(false);                              // costs time and finds only bugs
  if (deterministic) ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);  // or LibTorch refuses cuBLAS
}

}  // namespace dtrain::train
