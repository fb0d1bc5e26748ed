#pragma once

// Batch norm, and what follows it, in the form of GPU kernels, over plain memory. A kernel is a
// grid of blocks of kThreads threads. A block works in phases with a barrier after each: in a phase
// no thread reads what another writes. So the code of a block (batch_norm_blocks_body.h) also runs
// on a CPU, one thread after the other, and tests run it there. Sums are added up in a fixed order:
// the same bits in every run.
//
// Gain (dtrain bench step, and again with --device.fused_norm false): not measured, because these
// kernels have not run on a GPU. They pass over memory twice in forward and twice in backward where
// LibTorch's operators need two or three more passes for a residual, an activation and max-pooling.
// Delete them if a step on a GPU is less than 1.1 times as fast with them.

#include <cstdint>

#include "core/host_device.h"
#include "kernels/activation.h"
#include "kernels/launch_check.h"

namespace dtrain::kernels::batch_norm::blocks {

constexpr int kThreads = 256;

// Type of the elements in memory. The arithmetic, and all values per channel, are double for
// kDouble, else float. kDouble: on the CPU only.
enum class Type : uint8_t { kFloat, kHalf, kBFloat16, kDouble };

// The elements of a tensor as rows of columns that are contiguous in memory. Channels last: a row
// is a position, and its columns are the channels. Otherwise each channel has a table, whose rows
// are the samples and whose columns are the positions.
struct RowTable {
  int64_t rows = 0, columns = 0, channels = 0;
  bool channels_last = true;
  // [rows]: valid columns of each row, if channels are not last; nullptr: all
  const int64_t* lengths = nullptr;
};

// A block takes a part of the rows, and of their columns one tile (channels last) or one channel
// (otherwise). Its threads take `across` groups of columns side by side, a power of two, and
// kThreads / across rows at once.
struct Grid {
  int across = 1;
  int64_t tiles = 0, parts = 0, rows_per_part = 0;
};

// For threads that take `width` columns at a time. Pure; depends on the table alone, not on
// the GPU.
Grid grid_of(const RowTable&, int width);

enum class TensorPass : uint8_t {
  // partial = sums of x - origin and of its squares; origin = the first valid value of each channel
  kSums,
  kNormalize,     // out = activation(normalized x + residual), 0 beyond the lengths
  kGradientSums,  // partial = sums of the gradient before the activation, and of its product with x
                  // - mean; out = that gradient, if there is an output y
  kInputGradient,  // out = the gradient of x, 0 beyond the lengths
};

// A pass of batch_norm_gpu.h over whole tensors. With max-pooling of 2 x 2, the rows of the table
// are windows of x [B, height, width, channels]: all windows for kInputGradient, otherwise those
// that have an output.
struct TensorJob {
  TensorPass pass = TensorPass::kSums;
  Type type = Type::kFloat;
  // elements that a thread takes at a time: 1, or 16 bytes if all addresses and columns allow that
  int width = 1;
  RowTable table;
  Grid grid;
  Activation activation = Activation::kNone;
  bool pooled = false;
  // With pooling; of one image
  int64_t image_height = 0, image_width = 0, windows_down = 0, windows_across = 0;

  const void* x = nullptr;
  const void* residual = nullptr;
  const void* y = nullptr;
  const void* dy = nullptr;
  void* out = nullptr;
  // With pooling: which of its four values an output is, or 4 if its gradient is zero
  uint8_t* chosen = nullptr;

  const void *mean = nullptr, *invstd = nullptr, *weight = nullptr, *bias = nullptr;  // [channels]
  const void *slope = nullptr, *shift = nullptr;  // see input_gradient_of()
  void* partial = nullptr;                        // [parts][2][channels]
  void* origin = nullptr;                         // [channels]
};

enum class ChannelPass : uint8_t {
  kTotals,              // sums = the partial sums added up
  kStatistics,          // mean, invstd, count and the running statistics
  kFixedStatistics,     // mean, invstd and a count of 1, from the running statistics
  kParameterGradients,  // the gradients of weight and bias, from gradient sums of this rank
  kCoefficients,        // slope and shift, from gradient sums over all ranks
  kGradients,           // both, where they are the same sums
};

// What is done once per channel.
struct ChannelJob {
  ChannelPass pass = ChannelPass::kTotals;
  bool wide = false;  // values per channel are double, else float
  int64_t channels = 0;
  // Over all ranks, but for kParameterGradients; batch_norm::sums() and gradient_sums() say more
  double* sums = nullptr;

  // nullptr: none. Otherwise these are added up: in `sums` by kTotals, and in place of `sums` by
  // kStatistics and kGradients
  const void* partial = nullptr;
  const void* origin = nullptr;  // nullptr: they are gradient sums
  int64_t parts = 0;
  RowTable table;

  double eps = 0, momentum = 0;
  // [channels]
  void *mean = nullptr, *invstd = nullptr, *running_mean = nullptr, *running_var = nullptr;
  double* count = nullptr;
  int64_t* batches = nullptr;  // counts up

  // [channels]
  void *weight_gradient = nullptr, *bias_gradient = nullptr, *slope = nullptr, *shift = nullptr;
};

LaunchResult run_on_gpu(const TensorJob&, void* stream);
LaunchResult run_on_gpu(const ChannelJob&, void* stream);

// What computes jobs, one after the other. `stream` is a cudaStream_t of the current device, which
// has all the memory of the job; the call does not wait for it. DeviceError in a build without
// GPU code.
struct Runner {
  LaunchResult (*tensor)(const TensorJob&, void* stream) = nullptr;
  LaunchResult (*channel)(const ChannelJob&, void* stream) = nullptr;
  bool operator==(const Runner&) const = default;
};
inline constexpr Runner kOnGpu = {run_on_gpu, run_on_gpu};

}  // namespace dtrain::kernels::batch_norm::blocks
