#pragma once

// A batch in the making, on which several reader threads work at once: each sample has its place in buffers that are
// the batch's own tensors, or (for a device) one block of page-locked memory. Thread-safety: the places of different
// samples may be written by different threads, and leave_out() may be called by any.

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/batch.h"
#include "data/loader/packed_batch.h"

namespace dtrain::data {

struct PendingBatch {
  // `planned` has no tensors yet. Either place_in_... is to be called before a reader sees it.
  PendingBatch(Batch planned, PackedBatch sizes)
      : batch(std::move(planned)), packed(std::move(sizes)), planned_(batch.samples()) {}
  int64_t items() const { return planned_; }  // samples, bad ones included
  void place_in_block(at::Tensor block);      // [packed.bytes() or more] uint8
  void place_in_tensors(int64_t image_size, at::Device);

  // All bytes that the batch has for a sample's target or input, padding included. Of an input: not without `inputs`.
  std::span<std::byte> target_place(int64_t item) const { return place(targets, packed.target_bytes(), item); }
  std::span<std::byte> input_place(int64_t item) const { return place(inputs, packed.input_bytes(), item); }

  void leave_out(int64_t item, const std::string& message);

  Batch batch;
  PackedBatch packed;           // sizes, also of a batch that is not packed
  at::Tensor host;              // the block; undefined without a device, without samples, and once it is being copied
  bool begun = false;           // its copy
  std::byte* inputs = nullptr;  // where the readers write, sample after sample; null: images of the CPU's way
  std::byte* targets = nullptr;
  std::byte* augments = nullptr;  // images for a device
  int64_t* lengths = nullptr;     // rows

  struct Bad {
    int64_t item;
    std::string message;
  };
  std::vector<Bad> bad;  // left out, in any order

 private:
  std::span<std::byte> place(std::byte* begin, int64_t bytes, int64_t item) const {
    const int64_t each = bytes / packed.samples();
    return {begin + item * each, static_cast<size_t>(each)};
  }

  const int64_t planned_;
  std::mutex bad_mutex_;
};

}  // namespace dtrain::data
