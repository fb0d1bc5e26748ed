#pragma once

// The stages of `dtrain tune` that compare rates. Each goes on from the settings that the result has found so far, and
// changes them where another choice is better; each does nothing where nothing is free or no time is left. Collective.

#include "tune/session.h"

namespace dtrain::tune {

void choose_network(
    Session&);  // precision × channels_last × checkpointing; the largest batch again where they change it
void choose_batch(Session&);   // at the knee, not at the edge of memory
void choose_loader(Session&);  // reader threads × batches read ahead

// The given settings and the found ones in turn, so that what the machine does meanwhile hits both. What was given
// stays where it is faster.
void compare(Session&);

void test_rates(Session&);  // the learning rate's range

}  // namespace dtrain::tune
