#pragma once

// A device stage in host memory, to test the order of calls and the reuse of blocks without a GPU.
// Like a slow device, it copies a batch only after `lag` more batches have begun (or when the host
// waits for it), so that a block that is overwritten too early gives wrong pixels.

#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "core/check.h"
#include "data/augment/augment_pixel.h"
#include "data/loader/device_stage.h"

namespace dtrain::testing {

class HostStage final : public data::DeviceStage {
 public:
  HostStage(data::StageOptions options, int lag) : options_(std::move(options)), lag_(lag) {}
  ~HostStage() override {
    if (freed_before_the_end != nullptr) *freed_before_the_end = *freed_;
  }

  int64_t waits = 0;                   // how often the host waited for a copy
  std::atomic<int64_t> allocated = 0;  // number of blocks
  // Receives the number of blocks that did not outlive the stage
  int64_t* freed_before_the_end = nullptr;

  at::Tensor host_memory(int64_t bytes) override {
    ++allocated;
    auto* block = new std::vector<uint8_t>(static_cast<size_t>(bytes) + 1);
    const auto free = [block, freed = freed_](void*) {
      ++*freed;
      delete block;
    };
    return at::from_blob(block->data(), {bytes}, free, at::kByte);
  }

  std::unique_ptr<data::HostCopy> begin(const at::Tensor& host,
                                        const data::PackedBatch& packed) override {
    DTRAIN_CHECK(begun_.size() < 2, "a third batch begun");
    DTRAIN_CHECK(host.numel() >= packed.bytes(), "a block too small");
    auto transfer = std::make_shared<Transfer>();
    transfer->host = host, transfer->packed = packed;
    begun_.push_back(transfer);
    late_.push_back(transfer);
    while (late_.size() > static_cast<size_t>(lag_)) {
      late_.front()->run();
      late_.pop_front();
    }
    return std::make_unique<Copy>(*this, transfer);
  }

  void finish(const std::function<void()>& copied, const data::BatchTensors& into) override {
    DTRAIN_CHECK(!begun_.empty(), "finish() before begin()");
    const auto transfer = begun_.front();
    begun_.pop_front();
    if (copied) copied();
    // A device would continue asynchronously. Here the result must be complete on return, so it is
    // made from a copy of the block; the block itself remains in use until run().
    const at::Tensor block = transfer->over ? transfer->device : transfer->host.clone();
    const data::PackedBatch& packed = transfer->packed;
    copy_part(block, 0, into.targets);
    copy_part(block, packed.ids_at(), into.ids);
    if (packed.rows()) {
      copy_part(block, packed.lengths_at(), into.lengths);
      copy_part(block, packed.inputs_at(), into.inputs);
      return;
    }
    const int64_t side = options_.spec.image_size;
    const auto* bytes = block.data_ptr<uint8_t>();
    for (int64_t i = 0; i < packed.samples(); ++i) {
      data::SampleAugment augment;
      std::memcpy(&augment, bytes + packed.augments_at() + i * sizeof(augment), sizeof(augment));
      augmented(bytes + packed.inputs_at() + i * options_.image.bytes(), augment,
                into.inputs.data_ptr<float>() + i * side * side * 3, static_cast<int32_t>(side));
    }
  }

  void drop() override { begun_.clear(); }

 private:
  struct Transfer {
    at::Tensor host, device;
    data::PackedBatch packed;
    bool over = false;
    void run() {
      if (!over) device = host.clone();
      over = true;
    }
  };
  struct Copy final : data::HostCopy {
    Copy(HostStage& stage, std::shared_ptr<Transfer> transfer)
        : stage(stage), transfer(std::move(transfer)) {}
    bool done() const override { return transfer->over; }
    void wait() override {
      stage.waits += !transfer->over;
      transfer->run();
    }
    HostStage& stage;
    std::shared_ptr<Transfer> transfer;
  };

  static void copy_part(const at::Tensor& block, int64_t begin, const at::Tensor& to) {
    if (to.nbytes() > 0) std::memcpy(to.data_ptr(), block.data_ptr<uint8_t>() + begin, to.nbytes());
  }

  void augmented(const uint8_t* image, const data::SampleAugment& augment, float* out,
                 int32_t side) const {
    int64_t sum = 0;
    for (int32_t p = 0; p < side * side; ++p) {
      sum += data::grey_units(
          data::source_pixel(image, options_.image, augment, side, p / side, p % side));
    }
    for (int32_t p = 0; p < side * side; ++p) {
      data::finished_pixel(
          data::source_pixel(image, options_.image, augment, side, p / side, p % side),
          data::mean_grey(sum, side), augment, data::normalization(options_.spec), out + 3 * p);
    }
  }

  data::StageOptions options_;
  int lag_;
  std::shared_ptr<std::atomic<int64_t>> freed_ = std::make_shared<std::atomic<int64_t>>(0);
  std::deque<std::shared_ptr<Transfer>> begun_, late_;
};

}  // namespace dtrain::testing
