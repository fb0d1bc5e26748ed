#pragma once

// In which steps a rank computed for longer than the others did, by more than noise explains. Of
// equal ranks one is always last. Pure.

#include <vector>

#include "diagnose/what_if.h"

namespace dtrain::diagnose {

// What a rank computes in a step: forward, backward and optimizer. Waiting for data has causes of
// its own.
double own_work(const measure::StepTimes&);

// By rank, by step: the seconds by which the rank was later than the median of the others; 0 where
// noise explains them. All zero for one rank.
std::vector<std::vector<double>> lateness_of(const std::vector<Steps>& ranks);

}  // namespace dtrain::diagnose
