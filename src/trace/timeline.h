#pragma once

// From the events of a rank to what a viewer shows: slices, one below the other, on threads. Steps,
// micro-steps and batches are not recorded; they follow from the phases and from the samples. Pure
// functions of the events.

#include <span>
#include <string>
#include <vector>

#include "trace/recorder.h"

namespace dtrain::trace {

// A bar on a thread. Those of one thread are either apart or one inside the other.
struct Slice {
  const char* category;
  std::string name;
  Time begin, end;
  Event event = {};  // that it shows; of a step, a micro-step or a batch only the numbers
};

// Sorts the slices as a viewer draws them, outer ones first, and ends a slice that outlasts the one
// that it began in where that ends.
void nest(std::vector<Slice>&);

// Slices of the training thread: steps, in them micro-steps, phases and what is between phases
// ("other"), in these operators. What is before the first step is left out. The phases of a step,
// "other" included, are all of it.
std::vector<Slice> training_slices(std::span<const Event>);

// Slices of a loader thread: the samples of each batch that it read, in order, and their stages.
std::vector<Slice> loader_slices(std::span<const Event>);

// Slices of any other thread: its events that have a duration.
std::vector<Slice> plain_slices(std::span<const Event>);

// A bucket of gradients on its way.
struct BucketTimes {
  int64_t bucket = 0, bytes = 0;
  int64_t step = 0;           // number of the optimizer step
  Time ready = 0, sent = 0;   // ready: 0 if it was sent without (a rank without samples)
  Time began = 0, ended = 0;  // times of its all_reduce; 0: unknown, for example if a rank is alone
};

// `reducer`: its events; `operations`: those of its communicator, which carries the buckets in
// their order, and the sums of loss and weight behind them; `steps`: events with the steps. Where
// the operations are not those of the buckets, no times of them are known.
std::vector<BucketTimes> buckets_of(std::span<const Event> reducer,
                                    std::span<const Event> operations,
                                    std::span<const Event> steps);

// An operator and the one of the backward pass that it causes.
struct FlowEnds {
  Event forward, backward;
  size_t track = 0;  // index in `all` of the backward operator's track
};
// `forward`: the events of the training thread, to which the sequence numbers belong; `all`: those
// of each track. An operator calls others with the same sequence number: the innermost is where the
// backward pass leads back to.
std::vector<FlowEnds> operator_flows(std::span<const Event> forward,
                                     std::span<const std::span<const Event>> all);

}  // namespace dtrain::trace
