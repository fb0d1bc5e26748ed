#pragma once

// What a classifier got right and wrong: counts that add up over batches and ranks, and what is
// said of them in the end.

#include <torch/torch.h>

#include <string>
#include <vector>

#include "core/table.h"

namespace dtrain::tasks {

inline constexpr int64_t kLargestConfusion = 100;  // classes: the matrix of more is no table for people or log files

// float64 on the device of the arguments (int64 [B]). Up to kLargestConfusion classes the confusion matrix
// [classes, classes], whose entry (t, p) counts samples of class t that were taken for p; with more, where it would
// take gigabytes, [3, classes]: hits, predictions and samples of each. No host synchronisation, and the same bits in
// any order.
at::Tensor hits_and_misses(const at::Tensor& targets, const at::Tensor& predictions, int64_t classes);

// Of hits_and_misses() on the CPU.
bool is_confusion(const at::Tensor& counts);
double samples_in(const at::Tensor& counts);
double accuracy(const at::Tensor& counts);
// The mean over the classes that occur, as a target or as a prediction, of 2 TP / (2 TP + FP + FN).
double macro_f1(const at::Tensor& counts);
// Columns precision, recall, f1, samples; NaN where there is nothing to divide by.
Table class_table(const at::Tensor& counts, const std::vector<std::string>& classes);
Table confusion_table(const at::Tensor& counts, const std::vector<std::string>& classes);  // is_confusion()

}  // namespace dtrain::tasks
