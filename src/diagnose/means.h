#pragma once

// Means over measured steps, and how evidence is worded: shared by the causes. Pure
// functions; seconds.

#include <string>
#include <vector>

#include "diagnose/evidence.h"

namespace dtrain::diagnose {

double mean_wall(const Steps&);  // 0 without steps
double mean_of(const Steps&, measure::Phase);
double mean_other(const Steps&);
double mean_launch(const Steps&);     // host time to launch forward and backward
double mean_computing(const Steps&);  // forward and backward

// The rank with the most of a phase, in the mean. Requires: there is a rank.
size_t worst_rank(const RunEvidence&, measure::Phase);
size_t longest_computing(const RunEvidence&);  // likewise, forward and backward together

// The rank whose phase is at least twice as long as that of every other one; -1: none stands out,
// or there is one rank.
int only_rank(const RunEvidence&, measure::Phase);

// The share of its waits that a rank with such steps has even if nothing of them is due to loading:
// no change of the readers makes a step shorter than one whose batch was in memory (its readers
// take cores from it, too).
double share_beyond_headroom(const RunEvidence&, const Steps&);

// The same for waiting for data, if the readers of that rank take longer than those of the others,
// too: where all of them are slow, a rank that waits for another one is given the time to catch up,
// and seems to wait for no data.
int only_rank_with_slow_readers(const RunEvidence&);

// For evidence that is about one rank: its number, or -1 where there is only one.
int rank_of(const RunEvidence&, size_t rank);

// The host of a rank; one of which nothing is known, where it was not measured.
const HostEvidence& host_of(const RunEvidence&, const RankEvidence&);

double or_zero(double value);  // 0 for what was not measured
// The value at that share of the sorted ones, rounded down: the median of two is the smaller one.
// Requires: there is a value.
double quantile(std::vector<double> values, double share);

// A phase takes `factor` of its time in each step.
Change times(measure::Phase, double factor);

std::string percent(double share);                 // "12 %"
std::string of_step(double seconds, double step);  // "8.1 of 13.0 ms"

}  // namespace dtrain::diagnose
