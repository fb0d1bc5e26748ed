#pragma once

// Means over measured steps, and how evidence is worded: shared by the causes. Pure functions; seconds.

#include <string>

#include "diagnose/evidence.h"

namespace dtrain::diagnose {

double mean_wall(const Steps&);  // 0 without steps
double mean_of(const Steps&, monitoring::Phase);
double mean_other(const Steps&);

// The rank whose phase is at least twice as long as that of every other one; -1: none stands out, or there is one rank.
int only_rank(const RunEvidence&, monitoring::Phase);

std::string of_step(double seconds, double step);  // "8.1 of 13.0 ms"

}  // namespace dtrain::diagnose
