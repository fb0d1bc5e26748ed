#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "device/copy_probe.h"
#include "text/strings.h"

namespace dtrain::device {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kPeerBytes = size_t{16} << 20, kHostBytes = size_t{64} << 20;
constexpr auto kTimeout = std::chrono::seconds(10);  // a copy takes milliseconds

struct Failure {
  cudaError_t code;
};

void check(cudaError_t code) {
  if (code != cudaSuccess) throw Failure{code};
}

// Memory of the GPU that is current when it is made.
class GpuMemory {
 public:
  explicit GpuMemory(size_t bytes) { check(cudaMalloc(&data_, bytes)); }
  ~GpuMemory() { cudaFree(data_); }
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;
  void* get() const { return data_; }
  void leak() { data_ = nullptr; }  // freeing waits for what uses it

 private:
  void* data_ = nullptr;
};

class Stream {
 public:
  Stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }

  bool done_in_time() const {
    const auto end = Clock::now() + kTimeout;
    for (;;) {
      const cudaError_t state = cudaStreamQuery(stream_);
      if (state == cudaSuccess) return true;
      if (state != cudaErrorNotReady) throw Failure{state};
      if (Clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

 private:
  cudaStream_t stream_ = nullptr;
};

// A value for each place and pair, so that a copy of another place, or of an earlier trial,
// is seen.
std::vector<uint64_t> pattern(int from, int to) {
  std::vector<uint64_t> words(kPeerBytes / sizeof(uint64_t));
  uint64_t state = (static_cast<uint64_t>(from) << 32) + static_cast<uint64_t>(to) + 1;
  for (uint64_t& word : words) word = state = state * 6364136223846793005u + 1442695040888963407u;
  return words;
}

CopyTrial compare(const std::vector<uint64_t>& sent, const std::vector<uint64_t>& received,
                  double seconds) {
  size_t wrong = 0, first = 0;
  for (size_t i = sent.size(); i-- > 0;) {
    if (sent[i] == received[i]) continue;
    ++wrong;
    first = i;
  }
  if (wrong == 0) return {CopyResult::kCorrect, static_cast<double>(kPeerBytes) / seconds, ""};
  return {CopyResult::kWrong, 0,
          str(wrong, " of ", sent.size(), " words differ, the first at byte ",
              first * sizeof(uint64_t))};
}

CopyTrial peer_copy(int from, int to) {
  int reachable = 0;
  check(cudaDeviceCanAccessPeer(&reachable, from, to));
  if (reachable == 0) return {};
  check(cudaSetDevice(to));
  GpuMemory there(kPeerBytes);
  check(cudaMemset(there.get(), 0, kPeerBytes));
  check(cudaDeviceSynchronize());
  check(cudaSetDevice(from));
  const cudaError_t enabled = cudaDeviceEnablePeerAccess(to, 0);
  if (enabled == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();
  } else {
    check(enabled);
  }
  GpuMemory here(kPeerBytes);
  Stream stream;
  const std::vector<uint64_t> sent = pattern(from, to);
  check(cudaMemcpy(here.get(), sent.data(), kPeerBytes, cudaMemcpyHostToDevice));
  // From pageable memory it may return before the copy has arrived, and the stream waits
  // for nothing.
  check(cudaDeviceSynchronize());
  const auto begin = Clock::now();
  check(cudaMemcpyPeerAsync(there.get(), to, here.get(), from, kPeerBytes, stream.get()));
  if (!stream.done_in_time()) {
    here.leak();
    there.leak();
    return {CopyResult::kHangs, 0, ""};
  }
  const std::chrono::duration<double> seconds = Clock::now() - begin;
  std::vector<uint64_t> received(sent.size());
  check(cudaSetDevice(to));
  check(cudaMemcpy(received.data(), there.get(), kPeerBytes, cudaMemcpyDeviceToHost));
  check(cudaSetDevice(from));
  return compare(sent, received, seconds.count());
}

}  // namespace

CopyTrial try_peer_copy(int from, int to) {
  try {
    return peer_copy(from, to);
  } catch (const Failure& failure) {
    cudaGetLastError();
    return {CopyResult::kFailed, 0, cudaGetErrorString(failure.code)};
  }
}

double host_copy_rate(int index) {
  void* pinned = nullptr;
  double rate = 0;
  try {
    check(cudaSetDevice(index));
    check(cudaMallocHost(&pinned, kHostBytes));
    GpuMemory memory(kHostBytes);
    Stream stream;
    for (int trial = 0; trial < 4; ++trial) {  // the first one wakes the link up
      const auto begin = Clock::now();
      check(
          cudaMemcpyAsync(memory.get(), pinned, kHostBytes, cudaMemcpyHostToDevice, stream.get()));
      check(cudaStreamSynchronize(stream.get()));
      const std::chrono::duration<double> seconds = Clock::now() - begin;
      rate = std::max(rate, static_cast<double>(kHostBytes) / seconds.count());
    }
  } catch (const Failure&) {
    cudaGetLastError();
    rate = 0;
  }
  if (pinned != nullptr) cudaFreeHost(pinned);
  return rate;
}

}  // namespace dtrain::device
