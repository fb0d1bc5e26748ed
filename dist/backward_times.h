#pragma once

// When during a backward pass the gradients of a rank were ready to be sent: three moments, of its
// first, its middle and its last bucket. They show how far a rank that is slow in backward had
// fallen behind, and where, and how much of the network's time a backward pass can hide; more
// buckets would say little more and cost as much again. On a GPU the moments are the device's own,
// and are read when it has passed them: taking one never waits. On request each bucket is noted,
// and the end of the pass.
//
// Thread-safety: a value. The training thread begins it, and then autograd's thread for the device
// adds to it.

#include <torch/types.h>

#include <array>
#include <cstddef>
#include <vector>

#include "core/clock.h"
#include "dist/side_stream.h"

namespace dtrain::dist {

class BackwardTimes {
 public:
  // Borrows the clock, which counts on the CPU.
  explicit BackwardTimes(const Clock& clock = real_clock()) : clock_(&clock) {}
  void note_all(bool on) { all_ = on; }  // from the next pass on, for shares()
  void reset();                          // nothing is known of a pass
  void begin(at::Device);                // the backward pass begins
  // To be sent; ignored outside of a backward pass
  void ready(at::Device, size_t bucket, size_t of_buckets);
  void end(at::Device);  // the pass has ended; noted with note_all() alone

  // Seconds from the start to each of the three; 0: it was not sent during the pass. Requires, on a
  // GPU: the device has passed them (else 0: it does not wait).
  std::array<double, 3> seconds() const;
  // After which share of the pass each bucket was ready; waits for the device. Empty unless all of
  // them were noted, as in a first step, whose buckets are sent after the pass.
  std::vector<double> shares(size_t of_buckets) const;

 private:
  struct Moment {
    Clock::Steady::time_point at;  // on the CPU
    Mark mark;                     // on a GPU
    bool taken = false;
  };
  Moment now(at::Device) const;
  double seconds_to(const Moment&) const;

  const Clock* clock_;
  bool all_ = false;
  Moment began_, ended_;
  std::array<Moment, 3> ready_;
  std::vector<Moment> each_;  // with note_all()
};

}  // namespace dtrain::dist
