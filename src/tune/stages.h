#pragma once

// The stages of `dtrain tune` that measure rates. Each takes what was found so far and returns it
// with what it found, changed where another choice is better; it does nothing where nothing is free
// or no time is left. The first stage is find_largest_batch() (memory_stage.h). Collective.

#include "tune/trials.h"
#include "tune/tune_result.h"

namespace dtrain::tune {

// Precision × channels_last × checkpointing, and what travels between ranks; the search for the
// largest batch again where they change it.
TuneState choose_network(const Trials&, TuneState);

// At the knee of the rate, not at the edge of memory; then the network again, if the batch has
// changed: with a larger one, another precision or memory format may be the fastest.
TuneState choose_batch(const Trials&, TuneState);

TuneState choose_loader(const Trials&, TuneState);  // reader threads × batches read ahead

// The given settings and the found ones in turn, so that what the machine does meanwhile hits both.
// What was given stays where it is faster.
TuneState compare(const Trials&, TuneState);

TuneState test_rates(const Trials&, TuneState);  // the learning rate's range

}  // namespace dtrain::tune
