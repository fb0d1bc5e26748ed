#pragma once

// Moves a batch from host memory to a GPU. One asynchronous copy on a separate stream transfers the
// packed batch (images as uint8). Kernels (images) or device copies (rows) on the current stream
// then write its tensors.
//
// Implemented by device_stage_cuda.cpp, or by device_stage_none.cpp in a build without GPU code;
// tests use one in host memory. Thread-safety: the thread that calls Loader::next() makes all
// calls, except host_memory().

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "data/loader/batch_tensors.h"
#include "data/loader/packed_batch.h"

namespace dtrain::data {

// A copy in progress. Its host memory may be reused once the copy is done.
class HostCopy {
 public:
  virtual ~HostCopy() = default;
  virtual bool done() const = 0;  // does not wait
  virtual void wait() = 0;        // blocks the host
};

class DeviceStage {
 public:
  virtual ~DeviceStage() = default;
  // New page-locked memory, [bytes] uint8; any thread may call
  virtual at::Tensor host_memory(int64_t bytes) = 0;
  // Starts the copy of a batch and returns without waiting. Requires: at most one earlier batch is
  // not finished.
  virtual std::unique_ptr<HostCopy> begin(const at::Tensor& host, const PackedBatch&) = 0;
  // Writes the oldest batch that is not finished to `into` (make_tensors() for its layout), on the
  // current stream: so after all that reads an earlier batch there. Requires: there is one.
  // `copied` may be empty. It is called between that stream's wait for the copy and its
  // first kernel.
  virtual void finish(const std::function<void()>& copied, const BatchTensors& into) = 0;
  virtual void drop() = 0;  // discards all batches that are not finished
};

struct StageOptions {
  SampleSpec spec;
  ImageShape image;            // images only
  int64_t largest_batch = 0;   // number of samples
  int64_t expected_bytes = 0;  // size of a packed batch; larger ones make the buffers grow
};

// Throws DeviceError if this build or this machine has no such device.
std::unique_ptr<DeviceStage> make_device_stage(at::Device, const StageOptions&);

}  // namespace dtrain::data
