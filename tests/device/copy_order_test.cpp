// The probe of direct copies between GPUs, on GPUs that this file pretends: a runtime of CUDA whose
// work is done as late as CUDA's documentation allows. A copy from pageable memory has not arrived
// when cudaMemcpy() returns, and a stream that does not block waits for no other stream. A probe
// that relies on more calls a good link damaged.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "device/copy_probe.h"

namespace {

// Work of the default stream that has not been done yet, in its order.
std::vector<std::function<void()>>& late() {
  static std::vector<std::function<void()>> work;
  return work;
}

cudaError_t finish() {
  for (const auto& work : std::exchange(late(), {})) work();
  return cudaSuccess;
}

bool damages_a_word = false;  // the link between the GPUs

}  // namespace

extern "C" {
cudaError_t cudaMalloc(void** data, size_t bytes) {
  *data = std::calloc(1, bytes);
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  finish();
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** data, size_t bytes) { return cudaMalloc(data, bytes); }
cudaError_t cudaFreeHost(void* data) { return cudaFree(data); }
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  late().emplace_back([=] { std::memset(to, value, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (kind == cudaMemcpyDeviceToHost) {  // returns when the copy is there
    finish();
    std::memcpy(to, from, bytes);
    return cudaSuccess;
  }
  // The source may be freed as soon as it returns: CUDA has a copy of it.
  const auto* begin = static_cast<const unsigned char*>(from);
  late().emplace_back([to, source = std::vector<unsigned char>(begin, begin + bytes)] {
    std::memcpy(to, source.data(), source.size());
  });
  return cudaSuccess;
}
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, cudaStream_t) {
  std::memcpy(to, from, bytes);
  if (damages_a_word) static_cast<unsigned char*>(to)[80] ^= 1;
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() { return finish(); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  *stream = nullptr;
  return flags == cudaStreamNonBlocking ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "an error"; }
}

namespace dtrain::device {
namespace {

TEST(CopyOrder, AGoodLinkIsNotCalledDamaged) {
  const CopyTrial trial = try_peer_copy(0, 1);
  EXPECT_EQ(trial.result, CopyResult::kCorrect) << trial.error;
  EXPECT_GT(trial.bytes_per_second, 0);
}

TEST(CopyOrder, ADamagedWordIsFound) {
  damages_a_word = true;
  const CopyTrial trial = try_peer_copy(1, 0);
  damages_a_word = false;
  EXPECT_EQ(trial.result, CopyResult::kWrong);
  EXPECT_NE(trial.error.find("1 of 2097152 words differ, the first at byte 80"), std::string::npos)
      << trial.error;
}

}  // namespace
}  // namespace dtrain::device
