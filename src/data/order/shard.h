#pragma once

// Which positions of an epoch an optimizer step uses, and how they are divided among ranks and
// micro-steps. Pure functions of (samples, seed, step, global batch), so that the number of ranks,
// accumulation, threads and restarts do not change which samples a step consumes.

#include <cstdint>
#include <vector>

namespace dtrain::data {

struct Shard {
  int rank = 0;
  int size = 1;
};

// The image of `i` under a pseudorandom permutation of [0, n) that `key` selects, in O(1) memory.
// Requires: 0 <= i < n. A Feistel network over the next even power of two, with cycle walking (J.
// Black and P. Rogaway, "Ciphers with Arbitrary Finite Domains", 2002).
int64_t permuted(int64_t i, int64_t n, uint64_t key);

struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

// Part `index` of [0, n) divided into `parts` contiguous parts. Sizes differ by at most one; larger
// ones come first.
Range part(int64_t n, int64_t parts, int64_t index);

// The positions that optimizer step `step` uses in its epoch. An epoch has ceil(samples /
// global_batch) steps; the last one may be smaller. Requires: samples > 0, global_batch > 0, step
// >= 0.
struct GlobalBatch {
  int64_t epoch = 0;
  Range positions;
};
int64_t steps_per_epoch(int64_t samples, int64_t global_batch);
GlobalBatch global_batch(int64_t step, int64_t samples, int64_t global_batch);

// How a global batch is divided: all ranks run the same number of micro-steps, each with at most
// `batch_size` samples. A rank's share, and any of its micro-steps, may be empty.
struct MicroPlan {
  int64_t micro_steps = 0;
  std::vector<Range> micro;  // this rank's positions, one range per micro-step
};
MicroPlan micro_plan(const GlobalBatch&, int64_t batch_size, Shard);

// The plan of a training. Batch norm cannot train on one sample, so where micro_plan() gives some
// rank a micro-batch of one, all micro-batches are pairs or empty; of an odd number, one has three
// samples. The numbers of micro-steps are those of micro_plan(), and so is the plan where pairs are
// not possible either, see has_single().
MicroPlan training_plan(const GlobalBatch&, int64_t batch_size, Shard);

// Whether training_plan() gives some micro-batch exactly one of `samples` samples: with a batch
// size of 1, for a single sample, and for an odd number in micro-batches of at most two.
bool has_single(int64_t samples, int64_t batch_size, int ranks);

// The batch size to divide a training with: that of the run, or 1 if a full step gives no rank more
// than one sample. Then one sample per rank was chosen, and pairs would leave half of the ranks
// without work.
int64_t division_size(int64_t batch_size, int64_t global_batch, int ranks);

// The most samples of a micro-batch of such a training, by training_plan() with division_size().
int64_t largest_micro_batch(int64_t samples, int64_t batch_size, int64_t global_batch, int ranks);

}  // namespace dtrain::data
