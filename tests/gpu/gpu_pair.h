#pragma once

// The same computation on the CPU and on a GPU. Without a GPU these tests are skipped; with
// DTRAIN_TEST_DEVICE=cpu the CPU takes the GPU's place, which tests the tests.

#include <gtest/gtest.h>
#include <torch/cuda.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

namespace dtrain::testing {

inline at::Device gpu() {
  const char* named = std::getenv("DTRAIN_TEST_DEVICE");
  return named != nullptr && std::string_view(named) == "cpu" ? at::Device(at::kCPU)
                                                              : at::Device(at::kCUDA, 0);
}

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (gpu().is_cuda() && !torch::cuda::is_available()) GTEST_SKIP() << "no GPU";
    // With TF32, products of float32 have 10 bits of mantissa.
    at::globalContext().setAllowTF32CuBLAS(false);
    at::globalContext().setAllowTF32CuDNN(false);
  }
};

// The largest difference, as a share of the largest value.
inline double difference(const at::Tensor& on_gpu, const at::Tensor& on_cpu) {
  if (on_cpu.numel() == 0) return 0;
  const at::Tensor a = on_gpu.detach().cpu().to(at::kDouble),
                   b = on_cpu.detach().cpu().to(at::kDouble);
  return (a - b).abs().max().item<double>() / std::max(1.0, b.abs().max().item<double>());
}

// The bound for sums of some thousand numbers in this type.
inline double bound(at::ScalarType dtype) {
  return dtype == at::kDouble  ? 1e-12
         : dtype == at::kFloat ? 2e-5
         : dtype == at::kHalf  ? 4e-3
                               : 3e-2;
}

}  // namespace dtrain::testing
