// Captures and graphs of the fake CUDA runtime: what is recorded, in which order launches do it,
// and each mistake that CUDA reports. graphs_test.py runs it, in orders of streams.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <future>
#include <utility>
#include <vector>

namespace fake_gpu {
namespace {

void succeeds(cudaError_t error) { EXPECT_EQ(error, cudaSuccess) << cudaGetErrorName(error); }

class Captures : public ::testing::Test {
 protected:
  void SetUp() override {
    for (cudaStream_t& stream : streams_)
      succeeds(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (cudaEvent_t& event : events_) succeeds(cudaEventCreate(&event));
    succeeds(cudaMalloc(reinterpret_cast<void**>(&of_gpu_), kBytes));
    succeeds(cudaMallocHost(reinterpret_cast<void**>(&of_host_), kBytes));
    set(0);
  }

  void TearDown() override {
    for (cudaStream_t stream : streams_) {
      if (stream == nullptr) continue;
      cudaGraph_t graph = nullptr;
      cudaStreamEndCapture(stream, &graph);
      succeeds(cudaGraphDestroy(graph));
    }
    for (cudaStream_t stream : streams_)
      if (stream != nullptr) succeeds(cudaStreamDestroy(stream));
    for (cudaEvent_t event : events_) succeeds(cudaEventDestroy(event));
    succeeds(cudaFree(of_gpu_));
    succeeds(cudaFreeHost(of_host_));
    cudaGetLastError();
  }

  void set(char value) {
    succeeds(cudaMemset(of_gpu_, value, kBytes));
    succeeds(cudaDeviceSynchronize());
  }

  char get() {
    char value = 0;
    succeeds(cudaDeviceSynchronize());
    succeeds(cudaMemcpy(&value, of_gpu_, 1, cudaMemcpyDeviceToHost));
    return value;
  }

  void begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
    succeeds(cudaStreamBeginCapture(streams_[0], mode));
  }

  cudaGraphExec_t end() {
    cudaGraph_t graph = nullptr;
    succeeds(cudaStreamEndCapture(streams_[0], &graph));
    if (graph == nullptr) return nullptr;
    cudaGraphExec_t exec = nullptr;
    succeeds(cudaGraphInstantiate(&exec, graph, 0));
    succeeds(cudaGraphDestroy(graph));
    return exec;
  }

  // Stream `to` waits for what stream `from` has been given.
  void wait(size_t to, size_t from) {
    succeeds(cudaEventRecord(events_[0], streams_[from]));
    succeeds(cudaStreamWaitEvent(streams_[to], events_[0], 0));
  }

  void fill(size_t stream, char value, size_t at = 0) {
    succeeds(cudaMemsetAsync(of_gpu_ + at, value, 1, streams_[stream]));
  }

  void move(size_t stream, size_t to, size_t from) {
    succeeds(cudaMemcpyAsync(of_gpu_ + to, of_gpu_ + from, 1, cudaMemcpyDeviceToDevice,
                             streams_[stream]));
  }

  static constexpr size_t kBytes = 64;
  std::array<cudaStream_t, 3> streams_ = {};
  std::array<cudaEvent_t, 3> events_ = {};
  char* of_gpu_ = nullptr;
  char* of_host_ = nullptr;
};

TEST_F(Captures, WorkIsDoneByEachLaunchAndNotBefore) {
  begin();
  fill(0, 5);
  cudaGraphExec_t exec = end();
  EXPECT_EQ(get(), 0);
  for (const size_t on : {0, 1, 0}) {
    set(0);
    succeeds(cudaGraphLaunch(exec, streams_[on]));
    EXPECT_EQ(get(), 5);
  }
  succeeds(cudaGraphExecDestroy(exec));
}

TEST_F(Captures, ALaunchReadsWhatPinnedMemoryHasThen) {
  begin();
  succeeds(cudaMemcpyAsync(of_gpu_, of_host_, 1, cudaMemcpyHostToDevice, streams_[0]));
  cudaGraphExec_t exec = end();
  for (const char value : {'a', 'b'}) {
    *of_host_ = value;
    succeeds(cudaGraphLaunch(exec, streams_[0]));
    EXPECT_EQ(get(), value);
  }
  succeeds(cudaGraphExecDestroy(exec));
}

TEST_F(Captures, AreKnownByTheirStreams) {
  cudaStreamCaptureStatus status{};
  unsigned long long id = 0, other = 0;
  begin();
  succeeds(cudaStreamIsCapturing(streams_[1], &status));
  EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  wait(1, 0);
  succeeds(cudaStreamGetCaptureInfo(streams_[0], &status, &id));
  succeeds(cudaStreamGetCaptureInfo(streams_[1], &status, &other));
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  EXPECT_EQ(id, other);
  wait(0, 1);
  succeeds(cudaGraphExecDestroy(end()));
  succeeds(cudaStreamIsCapturing(streams_[1], &status));
  EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  begin();
  succeeds(cudaStreamGetCaptureInfo(streams_[0], &status, &other));
  EXPECT_NE(id, other);
}

TEST_F(Captures, AGraphHasANodeForEachWork) {
  begin();
  fill(0, 1);
  wait(1, 0);
  fill(1, 2);
  wait(0, 1);
  cudaGraph_t graph = nullptr;
  succeeds(cudaStreamEndCapture(streams_[0], &graph));
  size_t count = 0;
  succeeds(cudaGraphGetNodes(graph, nullptr, &count));
  EXPECT_EQ(count, 2U);
  std::array<cudaGraphNode_t, 3> nodes = {};
  count = nodes.size();
  succeeds(cudaGraphGetNodes(graph, nodes.data(), &count));
  EXPECT_EQ(count, 2U);
  EXPECT_NE(nodes[0], nodes[1]);
  EXPECT_EQ(nodes[2], nullptr);
  succeeds(cudaGraphDestroy(graph));
}

TEST_F(Captures, LaunchesKeepTheRecordedWaits) {
  begin();
  fill(0, 1);
  wait(1, 0);
  move(1, 1, 0);  // reads 1, before stream 0 writes 2
  wait(0, 1);
  fill(0, 2);
  wait(2, 0);
  move(2, 2, 0);  // reads 2
  wait(0, 2);
  move(0, 0, 1);
  cudaGraphExec_t exec = end();
  for (int i = 0; i < 10; ++i) {
    set(0);
    succeeds(cudaGraphLaunch(exec, streams_[0]));
    EXPECT_EQ(get(), 1);
    std::array<char, 3> values = {};
    succeeds(cudaMemcpy(values.data(), of_gpu_, values.size(), cudaMemcpyDeviceToHost));
    EXPECT_EQ(values[2], 2);
  }
  succeeds(cudaGraphExecDestroy(exec));
}

// Where work is left until it is needed.
TEST_F(Captures, AMissingWaitShowsInOrder0) {
  begin();
  wait(1, 0);
  move(1, 1, 0);
  fill(0, 2);  // what stream 1 should have read before
  wait(0, 1);
  move(0, 0, 1);
  cudaGraphExec_t exec = end();
  succeeds(cudaGraphLaunch(exec, streams_[0]));
  EXPECT_EQ(get(), 2);
  succeeds(cudaGraphExecDestroy(exec));
}

TEST_F(Captures, LaunchesWaitForEarlierWorkAndLaterWorkForThem) {
  begin();
  move(0, 1, 0);
  cudaGraphExec_t exec = end();
  for (int i = 0; i < 10; ++i) {
    set(0);
    fill(1, 7);
    succeeds(cudaGraphLaunch(exec, streams_[1]));
    fill(1, 8);
    move(1, 0, 1);
    EXPECT_EQ(get(), 7);
  }
  succeeds(cudaGraphExecDestroy(exec));
}

TEST_F(Captures, LaunchesOfOneGraphWaitForEachOther) {
  begin();
  move(0, 2, 1);  // shifts
  move(0, 1, 0);
  fill(0, 9);
  cudaGraphExec_t exec = end();
  for (int i = 0; i < 10; ++i) {
    set(0);
    fill(0, 4);
    wait(1, 0);
    succeeds(cudaGraphLaunch(exec, streams_[0]));
    succeeds(cudaGraphLaunch(exec, streams_[1]));
    wait(0, 1);
    move(0, 0, 2);
    EXPECT_EQ(get(), 4);
  }
  succeeds(cudaGraphExecDestroy(exec));
}

TEST_F(Captures, ALaunchRecordsAndWaitsForExternalEvents) {
  begin();
  succeeds(cudaStreamWaitEvent(streams_[0], events_[1], cudaEventWaitExternal));
  move(0, 1, 0);
  succeeds(cudaEventRecordWithFlags(events_[2], streams_[0], cudaEventRecordExternal));
  cudaGraphExec_t exec = end();
  EXPECT_EQ(cudaEventElapsedTime(nullptr, events_[2], events_[2]), cudaErrorInvalidResourceHandle);
  for (const char value : {'a', 'b'}) {
    fill(1, value);
    succeeds(cudaEventRecord(events_[1], streams_[1]));
    succeeds(cudaGraphLaunch(exec, streams_[0]));
    succeeds(cudaStreamWaitEvent(streams_[2], events_[2], 0));
    move(2, 0, 1);
    succeeds(cudaEventSynchronize(events_[2]));
    EXPECT_EQ(get(), value);
    float milliseconds = -1;
    succeeds(cudaEventElapsedTime(&milliseconds, events_[1], events_[2]));
    EXPECT_GE(milliseconds, 0);
  }
  succeeds(cudaGraphExecDestroy(exec));
  EXPECT_EQ(cudaStreamWaitEvent(streams_[0], events_[1], cudaEventWaitExternal),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaEventRecordWithFlags(events_[1], streams_[0], cudaEventRecordExternal),
            cudaErrorInvalidValue);
}

TEST_F(Captures, WorkThatIsNotJoinedIsAnError) {
  begin();
  wait(1, 0);
  fill(1, 1);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(graph, nullptr);
  fill(1, 3);  // the stream is of use again
  EXPECT_EQ(get(), 3);
}

TEST_F(Captures, EndOnlyWhereTheyBegan) {
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaErrorIllegalState);
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal),
            cudaErrorStreamCaptureUnsupported);
  begin();
  EXPECT_EQ(cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeGlobal),
            cudaErrorIllegalState);
  wait(1, 0);
  EXPECT_EQ(cudaStreamEndCapture(streams_[1], &graph), cudaErrorStreamCaptureUnmatched);
  EXPECT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaErrorStreamCaptureInvalidated);
}

// By another thread, which has the mode `other`.
cudaError_t elsewhere(const std::function<cudaError_t()>& call,
                      cudaStreamCaptureMode other = cudaStreamCaptureModeGlobal) {
  return std::async(std::launch::async,
                    [&] {
                      cudaStreamCaptureMode mode = other;
                      cudaThreadExchangeStreamCaptureMode(&mode);
                      return call();
                    })
      .get();
}

TEST_F(Captures, OnlyARelaxedOneEndsInAnotherThread) {
  for (const auto& [mode, error] :
       {std::pair{cudaStreamCaptureModeGlobal, cudaErrorStreamCaptureWrongThread},
        std::pair{cudaStreamCaptureModeThreadLocal, cudaErrorStreamCaptureWrongThread},
        std::pair{cudaStreamCaptureModeRelaxed, cudaSuccess}}) {
    begin(mode);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(elsewhere([&] { return cudaStreamEndCapture(streams_[0], &graph); }), error);
    EXPECT_EQ(graph != nullptr, error == cudaSuccess);
    if (graph == nullptr) cudaStreamEndCapture(streams_[0], &graph);
    succeeds(cudaGraphDestroy(graph));
  }
}

TEST_F(Captures, ModesSayWhoMayAllocate) {
  const cudaStreamCaptureMode global = cudaStreamCaptureModeGlobal,
                              local = cudaStreamCaptureModeThreadLocal,
                              relaxed = cudaStreamCaptureModeRelaxed;
  struct Case {
    cudaStreamCaptureMode capture, thread;
    bool own, other;  // may allocate
  };
  for (const Case& one : {Case{global, global, false, false}, Case{global, local, false, true},
                          Case{global, relaxed, true, true}, Case{local, global, false, true},
                          Case{local, relaxed, true, true}, Case{relaxed, global, true, true}}) {
    for (const bool in_own : {true, false}) {
      SCOPED_TRACE(::testing::Message() << one.capture << one.thread << in_own);
      begin(one.capture);
      void* block = nullptr;
      const auto allocate = [&] { return cudaMalloc(&block, 1); };
      cudaStreamCaptureMode mode = one.thread;
      cudaThreadExchangeStreamCaptureMode(&mode);
      const cudaError_t error = in_own ? allocate() : elsewhere(allocate, one.thread);
      cudaThreadExchangeStreamCaptureMode(&mode);
      const bool may = in_own ? one.own : one.other;
      EXPECT_EQ(error, may ? cudaSuccess : cudaErrorStreamCaptureUnsupported);
      cudaGraph_t graph = nullptr;
      EXPECT_EQ(cudaStreamEndCapture(streams_[0], &graph),
                may ? cudaSuccess : cudaErrorStreamCaptureInvalidated);
      succeeds(cudaGraphDestroy(graph));
      if (may) succeeds(cudaFree(block));
    }
  }
}

TEST_F(Captures, AMistakeEndsThem) {
  char pageable = 0;
  float milliseconds = 0;
  cudaGraph_t graph = nullptr;
  succeeds(cudaStreamBeginCapture(streams_[1], cudaStreamCaptureModeRelaxed));
  succeeds(cudaStreamEndCapture(streams_[1], &graph));
  cudaGraphExec_t exec = nullptr;
  succeeds(cudaGraphInstantiate(&exec, graph, 0));
  succeeds(cudaGraphDestroy(graph));
  void* block = nullptr;
  const auto unsupported = cudaErrorStreamCaptureUnsupported;
  struct Mistake {
    const char* name;
    cudaError_t error;
    std::function<cudaError_t()> make;
  };
  // events_[0] is recorded in the capture, events_[1] elsewhere, events_[2] in another capture.
  const std::vector<Mistake> mistakes = {
      {"wait for stream", unsupported, [&] { return cudaStreamSynchronize(streams_[0]); }},
      {"ask stream", unsupported, [&] { return cudaStreamQuery(streams_[0]); }},
      {"wait for another", unsupported, [&] { return cudaStreamSynchronize(streams_[1]); }},
      {"wait for GPU", unsupported, [&] { return cudaDeviceSynchronize(); }},
      {"wait for event", cudaErrorCapturedEvent, [&] { return cudaEventSynchronize(events_[0]); }},
      {"ask event", cudaErrorCapturedEvent, [&] { return cudaEventQuery(events_[0]); }},
      {"ask another event", unsupported, [&] { return cudaEventQuery(events_[1]); }},
      {"time", cudaErrorCapturedEvent,
       [&] { return cudaEventElapsedTime(&milliseconds, events_[1], events_[0]); }},
      {"copy", unsupported, [&] { return cudaMemcpy(of_gpu_, of_host_, 1, cudaMemcpyDefault); }},
      {"malloc", unsupported, [&] { return cudaMalloc(&block, 1); }},
      {"free", unsupported, [&] { return cudaFree(of_gpu_); }},
      {"pin", unsupported, [&] { return cudaHostAlloc(&block, 1, 0); }},
      {"unpin", unsupported, [&] { return cudaFreeHost(of_host_); }},
      {"to pageable memory", unsupported,
       [&] { return cudaMemcpyAsync(&pageable, of_gpu_, 1, cudaMemcpyDefault, streams_[0]); }},
      {"from pageable memory", unsupported,
       [&] { return cudaMemcpyAsync(of_gpu_, &pageable, 1, cudaMemcpyDefault, streams_[0]); }},
      {"launch", unsupported, [&] { return cudaGraphLaunch(exec, streams_[0]); }},
      {"wait for what is not captured", cudaErrorStreamCaptureIsolation,
       [&] { return cudaStreamWaitEvent(streams_[0], events_[1], 0); }},
      {"wait for another capture", cudaErrorStreamCaptureMerge,
       [&] { return cudaStreamWaitEvent(streams_[0], events_[2], 0); }},
      {"default stream waits", cudaErrorStreamCaptureImplicit,
       [&] { return cudaStreamWaitEvent(nullptr, events_[0], 0); }}};
  for (const Mistake& mistake : mistakes) {
    SCOPED_TRACE(mistake.name);
    succeeds(cudaEventRecord(events_[1], streams_[1]));
    succeeds(cudaStreamBeginCapture(streams_[2], cudaStreamCaptureModeRelaxed));
    succeeds(cudaEventRecord(events_[2], streams_[2]));
    begin();
    succeeds(cudaEventRecord(events_[0], streams_[0]));
    EXPECT_EQ(mistake.make(), mistake.error);
    EXPECT_EQ(cudaGetLastError(), mistake.error);
    EXPECT_EQ(cudaMemsetAsync(of_gpu_, 1, 1, streams_[0]), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(cudaStreamWaitEvent(streams_[1], events_[0], 0), cudaErrorStreamCaptureInvalidated);
    cudaStreamCaptureStatus status{};
    succeeds(cudaStreamIsCapturing(streams_[0], &status));
    EXPECT_EQ(status, cudaStreamCaptureStatusInvalidated);
    EXPECT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(graph, nullptr);
    cudaStreamEndCapture(streams_[2], &graph);
    succeeds(cudaGraphDestroy(graph));
    cudaGetLastError();
    EXPECT_EQ(cudaEventQuery(events_[0]), cudaErrorCapturedEvent);
    EXPECT_EQ(cudaStreamWaitEvent(streams_[1], events_[0], 0), cudaErrorCapturedEvent);
  }
  EXPECT_EQ(get(), 0);
  succeeds(cudaGraphExecDestroy(exec));
}

TEST_F(Captures, AStreamThatIsDestroyedEndsThem) {
  begin();
  wait(1, 0);
  succeeds(cudaStreamDestroy(std::exchange(streams_[1], nullptr)));
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaErrorStreamCaptureInvalidated);
  begin();
  succeeds(cudaStreamDestroy(std::exchange(streams_[0], nullptr)));
  void* block = nullptr;
  succeeds(cudaMalloc(&block, 1));  // no capture is left
  succeeds(cudaFree(block));
}

// Not in orders of streams, which have no such streams.
TEST_F(Captures, OfABlockingStreamForbidTheDefaultOne) {
  cudaStream_t blocking = nullptr;
  succeeds(cudaStreamCreate(&blocking));
  cudaGraph_t graph = nullptr;
  cudaStreamCaptureStatus status{};
  succeeds(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed));
  EXPECT_EQ(cudaStreamIsCapturing(nullptr, &status), cudaErrorStreamCaptureImplicit);
  succeeds(cudaStreamEndCapture(blocking, &graph));  // that did no harm
  succeeds(cudaGraphDestroy(graph));
  const std::vector<std::function<cudaError_t()>> uses = {
      [&] { return cudaMemsetAsync(of_gpu_, 1, 1, nullptr); },
      [&] { return cudaStreamSynchronize(nullptr); },
      [&] { return cudaMemcpy(of_gpu_, of_host_, 1, cudaMemcpyDefault); },
      [&] { return cudaEventRecord(events_[0], nullptr); }};
  for (const auto& use : uses) {
    succeeds(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed));
    EXPECT_EQ(use(), cudaErrorStreamCaptureImplicit);
    EXPECT_EQ(cudaStreamEndCapture(blocking, &graph), cudaErrorStreamCaptureInvalidated);
  }
  EXPECT_EQ(get(), 0);
  succeeds(cudaStreamDestroy(blocking));
}

// With FAKE_GPU_FAIL=0:3.
TEST_F(Captures, AGpuFailsAtTheThirdLaunchOfAGraph) {
  begin();
  for (int i = 0; i < 5; ++i) fill(0, 1);
  cudaGraphExec_t exec = end();
  for (int i = 0; i < 3; ++i) succeeds(cudaGraphLaunch(exec, streams_[0]));
  EXPECT_EQ(cudaGraphLaunch(exec, streams_[0]), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeGlobal),
            cudaErrorIllegalAddress);
  std::_Exit(::testing::Test::HasFailure() ? 1 : 0);  // nothing can be given back
}

}  // namespace
}  // namespace fake_gpu
