#pragma once

// The steps as they would have been if the ranks had not lost time, of which only the sum is known:
// what a step lost is found in the step itself. Pure.

#include <vector>

#include "diagnose/what_if.h"

namespace dtrain::diagnose {

// Rank r computes (forward and backward) `seconds[r]` less per step, in the mean, of the `lost[r]`
// that it lost in all: first what it was behind the others in the same step by more than noise
// explains (lateness.h), then what a step took longer than the fast ones of the rank, the
// rest evenly.
Change computes_sooner(const std::vector<Steps>& ranks, const std::vector<double>& seconds,
                       const std::vector<double>& lost);

}  // namespace dtrain::diagnose
