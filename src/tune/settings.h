#pragma once

// What `dtrain tune` may change of a run, and which values are worth a trial. Pure.

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "config/load.h"

namespace dtrain::tune {

struct Settings {
  int64_t batch_size = 1;                        // of a rank and micro-step
  config::AmpMode amp = config::AmpMode::kFp32;  // never auto
  bool channels_last = true, checkpointing = false;
  config::Wire wire = config::Wire::kFp32;
  int64_t workers = 1, prefetch = 4;

  bool operator==(const Settings&) const = default;
  // Whether the network and its arithmetic are the same, so that one network can be used for both.
  bool same_network(const Settings& other) const {
    return amp == other.amp && channels_last == other.channels_last &&
           checkpointing == other.checkpointing && wire == other.wire;
  }
};

void apply(const Settings&, config::Config&);
std::string text_of(const Settings&);  // "batch 64, bf16, channels_last, 2 readers, 4 ahead"

// What may be changed: not what a flag of this command line sets, nor what does nothing for
// the network.
struct Freedom {  // travels from rank 0 to the others
  bool batch_size = true, amp = true, channels_last = true, checkpointing = true, wire = true,
       workers = true, prefetch = true;
};
Freedom freedom_of(const config::Loaded&);
std::vector<std::string> kept_by_flags(
    const config::Loaded&);  // of these, for people: "train.amp (--amp)"

// The precisions to compare on a device, with the given one: the fastest first. fp16 only where
// there is no bf16, which is as fast and needs no loss scaling.
std::vector<config::AmpMode> precisions(config::AmpMode given, at::DeviceType, int capability);

// The given settings first, then all others of precision × channels_last × checkpointing (of this
// only with `memory_is_short`, and where the given ones have none, by micro-batches of
// `checkpointed_batch`) that are free.
std::vector<Settings> network_candidates(const Settings& given, const Freedom&,
                                         const std::vector<config::AmpMode>&, bool memory_is_short,
                                         int64_t checkpointed_batch);

// Whether the first takes fewer resources: a smaller micro-batch, fewer readers or batches ahead,
// and more of none.
bool takes_less(const Settings&, const Settings&);

// How many of the four that change the arithmetic or its memory differ: what is given stays unless
// others are faster.
int differences(const Settings&, const Settings&);

// Samples of a micro-step, the most first, at most `most`, by halves. With a global batch, of which
// every rank has a share: that share in equal micro-steps; 0: any. `given` is among them unless it
// is too large, in place of the one that makes the same micro-steps.
std::vector<int64_t> batch_candidates(int64_t share_of_global_batch, int64_t most, int64_t given);

// Of reader threads, by the rate that loading alone has with each number of them: those that keep
// up with `needed` samples per second, the fewest first, at most three; the two fastest if none
// does. `given` is always among them.
struct LoadingSpeed {
  int threads = 0;
  double samples_per_second = 0;
};
std::vector<int> worker_candidates(std::vector<LoadingSpeed> speeds, double needed, int given);

// Seconds of an optimizer step with `accumulate` micro-steps, from one with a single one:
// `micro_seconds` of it are a micro-step of the slowest rank.
double step_seconds_with(int64_t accumulate, double step_seconds, double micro_seconds);

}  // namespace dtrain::tune
