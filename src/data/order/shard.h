#pragma once

// Which samples an optimizer step uses, and who reads which: pure functions of (samples, seed, step, global batch), so
// that ranks, accumulation, threads and restarts change nothing about what is consumed.

#include <cstdint>
#include <vector>

namespace dtrain::data {

struct Shard {
  int rank = 0;
  int size = 1;
};

// A bijection of [0, n) picked by `key`; O(1) memory at any n. Requires 0 <= i < n.
// Source of the construction: a Feistel network over the next even power of two with cycle walking
// (J. Black and P. Rogaway, "Ciphers with Arbitrary Finite Domains", 2002).
int64_t permuted(int64_t i, int64_t n, uint64_t key);

struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

// Part `index` of `parts` nearly equal contiguous parts of [0, n): sizes differ by at most one, larger first.
Range part(int64_t n, int64_t parts, int64_t index);

// The positions of optimizer step `step` in its epoch's order. Steps of an epoch: ceil(samples / global_batch); the
// last one is the tail and may be smaller. Requires samples > 0, global_batch > 0, step >= 0.
struct GlobalBatch {
  int64_t epoch = 0;
  int64_t step_in_epoch = 0;
  Range positions;
};
int64_t steps_per_epoch(int64_t samples, int64_t global_batch);
GlobalBatch global_batch(int64_t step, int64_t samples, int64_t global_batch);

// How a global batch is worked off: every rank runs `micro_steps`, each of at most `batch_size` samples; a rank's
// share, and a micro-step of it, may be empty.
struct MicroPlan {
  int64_t micro_steps = 0;
  std::vector<Range> micro;  // positions of this rank, one per micro-step
};
MicroPlan micro_plan(const GlobalBatch&, int64_t batch_size, Shard);

}  // namespace dtrain::data
