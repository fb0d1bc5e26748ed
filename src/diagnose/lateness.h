#pragma once

// The steps in which a rank computed for longer than the others did, by more than noise explains,
// and the steps as they would have been without lost time. One of equal ranks is always last. Pure.

#include <vector>

#include "diagnose/what_if.h"

namespace dtrain::diagnose {

// What a rank computes in a step: forward, backward and optimizer. Waiting for data has causes of
// its own.
double own_work(const measure::StepTimes&);

// Seconds by rank and by step that the rank was later than the median of the others; 0 where noise
// explains them. All zero for one rank.
std::vector<std::vector<double>> lateness_of(const std::vector<Steps>& ranks);

// The steps as if rank r computed (forward and backward) `seconds[r]` less per step, in the mean,
// of the `lost[r]` that it lost in all. Only these sums are known, so what a step lost is found in
// the step itself: first its lateness, then what it took longer than the fast steps of the rank,
// the rest evenly.
Change computes_sooner(const std::vector<Steps>& ranks, const std::vector<double>& seconds,
                       const std::vector<double>& lost);

}  // namespace dtrain::diagnose
