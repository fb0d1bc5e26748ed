#pragma once

// The stages of `dtrain tune` that compare rates. Each goes on from the settings that the result
// has found so far, and changes them where another choice is better; each does nothing where
// nothing is free or no time is left. Collective.

#include "tune/session.h"

namespace dtrain::tune {

// Precision × channels_last × checkpointing; the search for the largest batch again where they
// change it.
void choose_network(Session&);

// At the knee of the rate, not at the edge of memory; then the network again, if the batch has
// changed: with a larger one, another precision or memory format may be the fastest.
void choose_batch(Session&);

void choose_loader(Session&);  // reader threads × batches read ahead

// The given settings and the found ones in turn, so that what the machine does meanwhile hits both.
// What was given stays where it is faster.
void compare(Session&);

void test_rates(Session&);  // the learning rate's range

}  // namespace dtrain::tune
