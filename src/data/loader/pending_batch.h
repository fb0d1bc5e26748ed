#pragma once

// A batch that several reader threads fill at once. Each sample has its own place in the buffers:
// the batch's tensors or, for a device, one block of page-locked memory. Thread-safety: different
// threads may write the places of different samples, and any thread may call leave_out().

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/batch.h"
#include "data/loader/batch_tensors.h"
#include "data/loader/packed_batch.h"

namespace dtrain::data {

struct PendingBatch {
  // `planned` has no tensors yet. One of the place_in_... methods must be called before a reader
  // uses the batch.
  PendingBatch(Batch planned, PackedBatch sizes)
      : batch(std::move(planned)), packed(std::move(sizes)), planned_(batch.samples()) {}
  int64_t items() const { return planned_; }  // number of samples, including bad ones
  void place_in_block(at::Tensor block);      // [packed.bytes() or more] uint8
  void place_in_tensors(int64_t image_size, at::Device);

  // The place of a sample's target or input, including padding. input_place() requires `inputs`.
  std::span<std::byte> target_place(int64_t item) const {
    return place(targets, packed.target_bytes(), item);
  }
  std::span<std::byte> input_place(int64_t item) const {
    return place(inputs, packed.input_bytes(), item);
  }

  void leave_out(int64_t item, const std::string& message);

  Batch batch;
  PackedBatch packed;  // sizes; also used if the batch is not packed
  // The block; undefined without a device or samples, and after its copy has begun
  at::Tensor host;
  bool begun = false;           // whether the copy to the device has begun
  std::byte* inputs = nullptr;  // place of the first sample; null for images on the CPU
  std::byte* targets = nullptr;
  std::byte* augments = nullptr;  // only images for a device
  int64_t* lengths = nullptr;     // only rows

  struct Bad {
    int64_t item;
    std::string message;
  };
  std::vector<Bad> bad;  // samples left out, in any order

 private:
  std::span<std::byte> place(std::byte* begin, int64_t bytes, int64_t item) const {
    const int64_t each = bytes / packed.samples();
    return {begin + item * each, static_cast<size_t>(each)};
  }

  const int64_t planned_;
  std::mutex bad_mutex_;
};

}  // namespace dtrain::data
