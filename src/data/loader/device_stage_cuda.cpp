#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <array>
#include <deque>

#include "core/check.h"
#include "data/augment/augment_cuda.h"
#include "data/batch.h"
#include "data/loader/device_stage.h"

namespace dtrain::data {

namespace {

class EventCopy final : public HostCopy {
 public:
  explicit EventCopy(const c10::cuda::CUDAStream& stream) { event_.record(stream); }
  bool done() const override { return event_.query(); }
  void wait() override { event_.synchronize(); }

 private:
  // The training thread waits here whenever the GPU limits a run: it must not spin on a core that
  // the readers need.
  at::cuda::CUDAEvent event_{cudaEventDisableTiming | cudaEventBlockingSync};
};

class CudaStage final : public DeviceStage {
 public:
  CudaStage(at::Device device, const StageOptions& options)
      : device_(at::kCUDA, device.has_index() ? device.index() : c10::cuda::current_device()),
        options_(options),
        copy_stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device_.index())) {
    const c10::cuda::CUDAGuard guard(device_.index());
    for (Buffer& buffer : buffers_) allocate(buffer, options.expected_bytes);
    grey_sums_ =
        at::empty({options.largest_batch}, at::TensorOptions().dtype(at::kLong).device(device_));
  }

  // Waits for the copies in progress: the allocators that reuse their memory do not know this
  // stream. A GPU that has failed no longer copies, and its error is not for a destructor to throw.
  ~CudaStage() override { static_cast<void>(cudaStreamSynchronize(copy_stream_)); }

  at::Tensor host_memory(int64_t bytes) override {
    return at::empty({bytes}, at::TensorOptions().dtype(at::kByte).pinned_memory(true));
  }

  std::unique_ptr<HostCopy> begin(const at::Tensor& host, const PackedBatch& packed) override {
    DTRAIN_CHECK(begun_.size() < buffers_.size(), "a third batch begun");
    const c10::cuda::CUDAGuard guard(device_.index());
    Buffer& buffer = buffers_[next_buffer_];
    next_buffer_ = (next_buffer_ + 1) % buffers_.size();
    if (buffer.block.numel() < packed.bytes()) {
      // A dropped batch may still be copied into the old block, which the allocator must not give
      // away before that.
      buffer.block.record_stream(copy_stream_);
      allocate(buffer, packed.bytes() + packed.bytes() / 4);
    }
    buffer.consumed.block(copy_stream_);  // wait for the kernels that read the previous batch
    C10_CUDA_CHECK(cudaMemcpyAsync(buffer.block.data_ptr(), host.data_ptr(),
                                   static_cast<size_t>(packed.bytes()), cudaMemcpyHostToDevice,
                                   copy_stream_));
    buffer.copied.record(copy_stream_);
    buffer.packed = packed;
    begun_.push_back(&buffer);
    return std::make_unique<EventCopy>(copy_stream_);
  }

  void finish(const std::function<void()>& copied, const BatchTensors& into) override {
    DTRAIN_CHECK(!begun_.empty(), "finish() before begin()");
    Buffer& buffer = *begun_.front();
    begun_.pop_front();
    const c10::cuda::CUDAGuard guard(device_.index());
    const auto stream = c10::cuda::getCurrentCUDAStream(device_.index());
    buffer.copied.block(stream);
    if (copied) copied();

    copy_part(buffer, 0, into.targets, stream);
    copy_part(buffer, buffer.packed.ids_at(), into.ids, stream);
    if (buffer.packed.rows()) {
      copy_part(buffer, buffer.packed.lengths_at(), into.lengths, stream);
      copy_part(buffer, buffer.packed.inputs_at(), into.inputs, stream);
    } else {
      augment_images(buffer, into.inputs, stream);
    }
    buffer.consumed.record(stream);
  }

  void drop() override { begun_.clear(); }  // later copies follow theirs on the same stream

 private:
  struct Buffer {
    at::Tensor block;
    PackedBatch packed;
    at::cuda::CUDAEvent copied;    // recorded on the copy stream
    at::cuda::CUDAEvent consumed;  // recorded on the stream of the kernels
  };

  void allocate(Buffer& buffer, int64_t bytes) {
    buffer.block = at::empty({bytes}, at::TensorOptions().dtype(at::kByte).device(device_));
    // After earlier uses of this memory
    buffer.consumed.record(c10::cuda::getCurrentCUDAStream(device_.index()));
  }

  // Copies a part of the block, so that the block can be reused for the next batch.
  static void copy_part(const Buffer& buffer, int64_t begin, const at::Tensor& to,
                        const c10::cuda::CUDAStream& stream) {
    C10_CUDA_CHECK(cudaMemcpyAsync(to.data_ptr(), buffer.block.data_ptr<uint8_t>() + begin,
                                   to.nbytes(), cudaMemcpyDeviceToDevice, stream));
  }

  void augment_images(const Buffer& buffer, const at::Tensor& out,
                      const c10::cuda::CUDAStream& stream) const {
    const PackedBatch& packed = buffer.packed;
    const auto* block = buffer.block.data_ptr<uint8_t>();
    AugmentBatch batch;
    batch.images = block + packed.inputs_at();
    batch.augments = reinterpret_cast<const SampleAugment*>(block + packed.augments_at());
    batch.samples = packed.samples();
    batch.shape = options_.image;
    batch.side = static_cast<int32_t>(options_.spec.image_size);
    batch.norm = normalization(options_.spec);
    batch.grey_sums =
        packed.needs_mean ? reinterpret_cast<uint64_t*>(grey_sums_.data_ptr<int64_t>()) : nullptr;
    batch.out = out.data_ptr<float>();
    C10_CUDA_CHECK(augment(batch, stream));
  }

  const at::Device device_;
  const StageOptions options_;
  const c10::cuda::CUDAStream copy_stream_;
  std::array<Buffer, 2> buffers_;
  size_t next_buffer_ = 0;
  std::deque<Buffer*> begun_;  // oldest first
  at::Tensor grey_sums_;
};

}  // namespace

std::unique_ptr<DeviceStage> make_device_stage(at::Device device, const StageOptions& options) {
  if (!device.is_cuda() || c10::cuda::device_count() == 0) {
    throw DeviceError(str("batches for device ", device.str(), " were requested, but ",
                          c10::cuda::device_count(),
                          " usable GPUs were found. Check nvidia-smi and CUDA_VISIBLE_DEVICES, or "
                          "run with --device.type cpu."));
  }
  return std::make_unique<CudaStage>(device, options);
}

}  // namespace dtrain::data
