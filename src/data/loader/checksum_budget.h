#pragma once

// When a loader compares samples with their checksums, and how much time that may take by
// default. Thread-safety: one ChecksumBudget per reader thread.

#include <chrono>

namespace dtrain::data {

enum class Verify {
  kNever,
  kFirstEpoch,  // the samples of one epoch, as far as a ChecksumBudget allows; none with skip_bad,
                // because which samples are left out must not depend on time
  kAlways
};

// A reader thread may spend 1 % of the time since its start, and 20 ms besides: so a small data set
// is compared as a whole. Where readers wait for the network, that is enough for all samples; where
// the network waits for them, a run loses at most this share. A comparison is allowed until the
// budget is spent, so it can exceed it by one sample.
class ChecksumBudget {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr int kPart = 100;  // one part of this many
  static constexpr Clock::duration kAtStart = std::chrono::milliseconds(20);

  explicit ChecksumBudget(Clock::time_point start) : start_(start) {}
  bool allows(Clock::time_point now) const { return spent_ < kAtStart + (now - start_) / kPart; }
  void spend(Clock::duration time) { spent_ += time; }

 private:
  Clock::time_point start_;
  Clock::duration spent_ = {};
};

}  // namespace dtrain::data
