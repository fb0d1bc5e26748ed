#include "train/measured_steps.h"

#include "core/check.h"

namespace dtrain::train {

MeasuredSteps mean_over_phases(std::span<const MeasuredSteps> measured,
                               std::span<const double> shares) {
  DTRAIN_CHECK(measured.size() == shares.size(), measured.size(), " measurements for ",
               shares.size(), " phases");
  MeasuredSteps mean;
  for (const MeasuredSteps& one : measured) {
    mean.steps += one.steps;
    mean.samples += one.samples;
    mean.loader += one.loader;
  }
  for (size_t i = 0; i < measured.size(); ++i) {
    const MeasuredSteps& one = measured[i];
    const double weight =
        shares[i] * static_cast<double>(mean.steps) / static_cast<double>(one.steps);
    mean.seconds += weight * one.seconds;
    for (size_t p = 0; p < one.phase_seconds.size(); ++p)
      mean.phase_seconds[p] += weight * one.phase_seconds[p];
    mean.padded += weight * one.padded;
    mean.own_deviation += shares[i] * one.own_deviation;
  }
  return mean;
}

StepMemory larger_with_next_phase(StepMemory so_far, const StepMemory& next) {
  so_far.moments = next.moments;  // first: the phases are compared by the rest
  return next.total() > so_far.total() ? next : so_far;
}

}  // namespace dtrain::train
