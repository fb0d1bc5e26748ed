#pragma once

// The table of GPUs for --preset and for the first guess of `dtrain tune`. All but names are facts
// of the cards. What is computed from them is called estimated until a run on the card replaces it
// (Gpu::measured; none has yet). Constant; knows nothing of torch and CUDA.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::catalog {

// Whether a GPU of this compute capability (10 × major + minor) computes in bfloat16, and in TF32.
constexpr bool has_bf16(int capability) { return capability >= 80; }

// The largest micro-batch of pictures that `dtrain tune` found to fit into a card, on the card.
struct FittingBatch {
  std::string_view network;
  int64_t image_size = 0;
  bool half = false, checkpointing = false;  // half: 16-bit activations
  int64_t batch_size = 0;
};

struct Gpu {
  std::string_view name;  // value of --preset
  // What the driver's name of the card has in it: "NVIDIA GeForce RTX 3090"
  std::string_view product;
  double memory_gib = 0;  // that CUDA gives to programs
  int capability = 0;     // 10 × major + minor
  std::vector<FittingBatch> measured = {};

  bool has_bf16() const { return catalog::has_bf16(capability); }
  bool is_supported() const { return capability >= 75; }
  int64_t memory_bytes() const { return static_cast<int64_t>(memory_gib * (1 << 30)); }
};

const std::vector<Gpu>& gpus();
const Gpu* gpu_named(std::string_view name);  // nullptr: there is none
std::vector<std::string> gpu_names();         // those that this build supports

// The row of a card by the driver's name of it; where a product is sold with several sizes of
// memory, the nearest one. nullptr: it is not in the table.
const Gpu* find_gpu(std::string_view driver_name, int64_t memory_bytes);

// Why the V100 and its like cannot be used: the text of an error. Requires: not is_supported().
std::string unsupported_gpu(const Gpu&);

}  // namespace dtrain::catalog
