#pragma once

// The way of a batch from host memory to a GPU: one copy of bytes (images as uint8) on a stream of its own, then
// kernels (images) or copies of its parts (rows) on the current stream. device_stage_cuda.cpp, or device_stage_none.cpp
// in a build without GPU code; tests have one in host memory. Thread-safety: all calls from the thread that calls
// Loader::next(), but for host_memory().

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "data/loader/packed_batch.h"

namespace dtrain::data {

// The host memory may be written again once the copy is done.
class HostCopy {
 public:
  virtual ~HostCopy() = default;
  virtual bool done() const = 0;  // does not wait
  virtual void wait() = 0;        // blocks the host
};

struct StagedBatch {
  at::Tensor inputs, targets, lengths;  // as in Batch
};

class DeviceStage {
 public:
  virtual ~DeviceStage() = default;
  virtual at::Tensor host_memory(int64_t bytes) = 0;  // [bytes] uint8, page-locked; any thread
  // Starts the copy; the host does not wait. At most two batches are begun and not finished.
  virtual std::unique_ptr<HostCopy> begin(const at::Tensor& host, const PackedBatch&) = 0;
  virtual StagedBatch finish() = 0;  // of the batch begun first: augments on the current stream
  virtual void drop() = 0;           // forgets all that is begun and not finished
};

struct StageOptions {
  SampleSpec spec;
  ImageShape image;            // of images
  int64_t largest_batch = 0;   // samples
  int64_t expected_bytes = 0;  // of a packed batch; a larger one makes the stage grow
};

// Throws DeviceError when this build or machine has no such device.
std::unique_ptr<DeviceStage> make_device_stage(at::Device, const StageOptions&);

}  // namespace dtrain::data
