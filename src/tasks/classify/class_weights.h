#pragma once

// The weight of each class in the loss, from `train.class_weights`. Pure.

#include <cstdint>
#include <string>
#include <vector>

namespace dtrain::tasks {

// "none": 1 for all. "balanced": samples ÷ (classes with samples × samples of the class), and 0 for
// a class without samples, so that the mean over the samples is 1. Otherwise a list such as
// "1,0.5,2", one number of at least 0 per class. counts: training samples by class, which only
// "balanced" needs. ConfigError for any other text.
std::vector<double> class_weights(const std::string& text, const std::vector<std::string>& classes,
                                  const std::vector<int64_t>& counts);

// Mean weight of a training sample; without counts the mean over the classes.
double mean_weight(const std::vector<double>& weights, const std::vector<int64_t>& counts);

}  // namespace dtrain::tasks
