#pragma once

// A cause that holds a run back, and what a run would gain without it. Values, made by causes.h
// from measurements and chosen by verdict.h.

#include <optional>
#include <string>

#include "core/named_enum.h"
#include "diagnose/what_if.h"

namespace dtrain::diagnose {

enum class Cause {
  kDisk,       // reader threads wait for stored bytes
  kDecode,     // ... for the processor, from stored bytes to values
  kAugment,    // ... for random transforms on the CPU
  kReaders,    // more reader threads than the cores can run
  kPageCache,  // the memory cannot hold the data set: it is read from the disk again in each epoch
  kCopy,       // host to device
  kLateRank,   // the others wait for one and the same rank
  kRotatingRank,  // they wait for another one each time
  kLatency,       // many small messages
  kBandwidth,     // large ones
  // more than messages were measured to cost: the network is busy, or the thread that serves it
  kNetwork,
  kOverlap,  // messages that could travel during backward, and do not
  kOptimizer,
  kCheckpoint,
  kEvaluation,
  // work that is done once per step, whatever its size; on a GPU, the launch of kernels
  kSmallBatch,
  kPrecision,  // float32 on a GPU that is much faster at lower precision
  kPadding,
  kOversubscribed,  // more threads that run than cores
  kBinding,         // cores are idle that the rank may not use
  kCpuLimit,        // of the control group
  kSteal,           // the hypervisor runs others
  kPower,           // the GPU runs slower than it could: its power limit
  kHeat,            // ... its temperature
  kLossScale,       // steps are thrown away, because gradients overflow in float16
  kMemoryFull,
  kMemoryGrowth,
};
constexpr auto names_of(Cause) {
  return names("disk", "decode", "augment", "readers", "page_cache", "copy", "late_rank",
               "rotating_rank", "latency", "bandwidth", "network", "overlap", "optimizer",
               "checkpoint", "evaluation", "small_batch", "precision", "padding", "oversubscribed",
               "binding", "cpu_limit", "steal", "power", "heat", "loss_scale", "memory_full",
               "memory_growth");
}

// `otherwise` of a setting that makes the global batch larger.
inline constexpr const char* kLargerGlobalBatch =
    "(a larger global batch, which may need another learning rate)";

inline constexpr double kLeastGain = 0.03;  // what is less is not worth a change

struct Finding {
  Cause cause{};
  int rank = -1;              // -1: all ranks alike
  std::string evidence = "";  // "8.1 of 13.0 ms waiting for data"
  std::optional<Gain> gain =
      {};  // absent: none can be computed. judge() sets it where `without` is given
  std::string setting =
      "";  // that brings the gain: "--data.workers 8"; "": `otherwise` says what does
  std::string otherwise =
      "";  // "without the other processes of this host", or more about the setting
  std::optional<Replay> without = {};  // the steps as they would have been
};

}  // namespace dtrain::diagnose
