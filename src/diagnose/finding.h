#pragma once

// A cause that holds a run back, and what a run would gain without it. Values, made by causes.h from measurements and
// chosen by verdict.h.

#include <optional>
#include <string>

#include "core/named_enum.h"
#include "diagnose/what_if.h"

namespace dtrain::diagnose {

enum class Cause {
  kDisk,          // reader threads wait for stored bytes
  kDecode,        // ... for the processor, from stored bytes to values
  kAugment,       // ... for random transforms on the CPU
  kReaders,       // more reader threads than the cores can run
  kCopy,          // host to device
  kLateRank,      // the others wait for one and the same rank
  kRotatingRank,  // they wait for another one each time
  kLatency,       // many small messages
  kBandwidth,     // large ones
  kOptimizer,
  kCheckpoint,
  kEvaluation,
  kSmallBatch,  // work that is done once per step, whatever its size
  kPadding,
  kOversubscribed,  // more threads that run than cores
  kCpuLimit,        // of the control group
  kSteal,           // the hypervisor runs others
  kMemoryGrowth,
};
constexpr auto names_of(Cause) {
  return names("disk", "decode", "augment", "readers", "copy", "late_rank", "rotating_rank", "latency", "bandwidth",
               "optimizer", "checkpoint", "evaluation", "small_batch", "padding", "oversubscribed", "cpu_limit",
               "steal", "memory_growth");
}

struct Finding {
  Cause cause{};
  int rank = -1;             // -1: all ranks alike
  std::string evidence;      // "8.1 of 13.0 ms waiting for data"
  std::optional<Gain> gain;  // absent: none can be computed
  std::string setting;       // that brings the gain: "--data.workers 8"; "": `otherwise` says what does
  std::string otherwise;     // "without the other processes of this host"
};

}  // namespace dtrain::diagnose
