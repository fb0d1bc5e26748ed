#pragma once

// Counts of a classifier's hits and misses, which add up over batches and ranks, and the metrics
// and tables made of them.

#include <torch/types.h>

#include <string>
#include <vector>

#include "core/table.h"

namespace dtrain::tasks {

// classes: a larger matrix is too large to print or log
inline constexpr int64_t kLargestConfusion = 100;

// float64 on the device of the arguments (int64 [B]). Up to kLargestConfusion classes: the
// confusion matrix [classes, classes], whose entry (t, p) counts the samples of class t with
// prediction p. With more classes, where the matrix could take gigabytes: [3, classes], the hits,
// predictions and samples of each. Does not wait for the device; the sums are exact, so their order
// does not matter.
at::Tensor hits_and_misses(const at::Tensor& targets, const at::Tensor& predictions,
                           int64_t classes);

// `counts` is a sum of hits_and_misses() on the CPU.
bool is_confusion(const at::Tensor& counts);
double samples_in(const at::Tensor& counts);
double accuracy(const at::Tensor& counts);
// The mean over the classes that occur, as a target or as a prediction, of 2 TP / (2 TP + FP + FN).
double macro_f1(const at::Tensor& counts);
// Columns precision, recall, f1, samples; NaN where there is nothing to divide by.
Table class_table(const at::Tensor& counts, const std::vector<std::string>& classes);
// is_confusion()
Table confusion_table(const at::Tensor& counts, const std::vector<std::string>& classes);

}  // namespace dtrain::tasks
