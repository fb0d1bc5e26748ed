#pragma once

// The way of a batch from host memory to a GPU: one copy of bytes (images as uint8) on a stream of its own, then
// kernels on the current stream. device_stage_cuda.cpp, or device_stage_none.cpp in a build without GPU code; tests
// have one in host memory. Thread-safety: all calls from the thread that calls Loader::next().

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "data/augment.h"

namespace dtrain::data {

// A batch as one block of bytes: targets (float32), augmentations, images.
struct PackedBatch {
  int64_t samples = 0, target_elements = 0, image_bytes = 0;
  bool needs_mean = false;  // some sample's contrast is changed
  int64_t augments_at() const { return samples * target_elements * static_cast<int64_t>(sizeof(float)); }
  int64_t images_at() const { return augments_at() + samples * static_cast<int64_t>(sizeof(SampleAugment)); }
  int64_t bytes() const { return images_at() + samples * image_bytes; }
};

// The host memory may be written again once the copy is done.
class HostCopy {
 public:
  virtual ~HostCopy() = default;
  virtual bool done() const = 0;  // does not wait
  virtual void wait() = 0;        // blocks the host
};

struct StagedBatch {
  at::Tensor inputs, targets;  // as in Batch
};

class DeviceStage {
 public:
  virtual ~DeviceStage() = default;
  virtual at::Tensor host_memory(int64_t bytes) = 0;  // [bytes] uint8, page-locked
  // Starts the copy; the host does not wait. At most two batches are begun and not finished.
  virtual std::unique_ptr<HostCopy> begin(const at::Tensor& host, const PackedBatch&) = 0;
  virtual StagedBatch finish() = 0;  // of the batch begun first: augments on the current stream
  virtual void drop() = 0;           // forgets all that is begun and not finished
};

struct StageOptions {
  SampleSpec spec;
  ImageShape image;
  std::vector<int64_t> target_shape;  // of one sample
  int64_t largest_batch = 0;          // samples
};
// Throws DeviceError when this build or machine has no such device.
std::unique_ptr<DeviceStage> make_device_stage(at::Device, const StageOptions&);

}  // namespace dtrain::data
