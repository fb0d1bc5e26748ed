#pragma once

// The counters of one reader thread, for LoaderStats. A StageClock reads the time when a sample
// begins and at the end of each of its stages, and adds an event for each to a trace.
// Thread-safety: one thread writes, any thread may read.

#include <atomic>
#include <chrono>
#include <cstdint>

#include "core/clock.h"
#include "data/loader/loader_stats.h"
#include "trace/recorder.h"

namespace dtrain::data {

class ReaderCounters {
 public:
  using Nanoseconds = std::atomic<int64_t>;

  void add_sample(int64_t bytes) {
    add(samples_, 1);
    add(bytes_, bytes);
    if (few_) add(few_samples_, 1);
  }
  // Counts a sample that Verify::kFirstEpoch is about. Without `compared`, the budget was spent.
  void add_comparison(bool compared) { add(compared ? compared_ : not_compared_, 1); }
  LoaderStats stats() const {
    const auto seconds = [](const Nanoseconds& total) {
      return static_cast<double>(total.load(kRelaxed)) * 1e-9;
    };
    return {.samples = samples_.load(kRelaxed),
            .bytes = bytes_.load(kRelaxed),
            .read_seconds = seconds(read_),
            .decode_seconds = seconds(decode_),
            .augment_seconds = seconds(augment_),
            .few_samples = few_samples_.load(kRelaxed),
            .few_seconds = seconds(few_service_),
            .compared = compared_.load(kRelaxed),
            .not_compared = not_compared_.load(kRelaxed)};
  }

 private:
  friend class StageClock;
  static constexpr std::memory_order kRelaxed = std::memory_order_relaxed;
  // Cheaper than fetch_add(), which is for several writers.
  static void add(std::atomic<int64_t>& total, int64_t value) {
    total.store(total.load(kRelaxed) + value, kRelaxed);
  }

  std::atomic<int64_t> samples_ = 0, bytes_ = 0, few_samples_ = 0, compared_ = 0, not_compared_ = 0;
  Nanoseconds read_ = 0, decode_ = 0, augment_ = 0, few_service_ = 0;
  bool few_ = false;  // whether half of the readers rest during the current sample
};

// Each method ends a stage and begins the next one. A sample that cannot be read counts up to its
// last whole stage.
class StageClock {
 public:
  struct Sample {  // for the trace
    int64_t step, micro, id;
  };
  // `few`: half of the readers are at work, and the others rest. `track`: nullptr, or where a trace
  // has this thread. Borrows the clock.
  StageClock(ReaderCounters& counters, bool few, trace::Track* track, Sample sample,
             const Clock& clock = real_clock())
      : counters_(counters), track_(track), sample_(sample), clock_(clock), began_(clock.now()) {
    counters_.few_ = few;
  }
  void has_read() { lap(counters_.read_, "read"); }
  void has_decoded() { lap(counters_.decode_, "decode"); }
  void has_augmented() { lap(counters_.augment_, "augment"); }

 private:
  void lap(ReaderCounters::Nanoseconds& total, const char* stage) {
    const auto now = clock_.now();
    const int64_t passed =
        std::chrono::duration_cast<std::chrono::nanoseconds>(now - began_).count();
    ReaderCounters::add(total, passed);
    if (counters_.few_) ReaderCounters::add(counters_.few_service_, passed);
    if (track_) {
      track_->add({.name = stage,
                   .begin = trace::time_of(began_),
                   .end = trace::time_of(now),
                   .kind = trace::Kind::kStage,
                   .a = sample_.step + 1,
                   .b = sample_.micro,
                   .c = sample_.id});
    }
    began_ = now;
  }

  ReaderCounters& counters_;
  trace::Track* track_;
  Sample sample_;
  const Clock& clock_;
  Clock::Steady::time_point began_;
};

}  // namespace dtrain::data
