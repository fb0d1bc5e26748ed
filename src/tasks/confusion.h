#pragma once

// What a classifier got right and wrong, as a confusion matrix: counts that add up over batches and ranks, and what is
// said of them in the end.

#include <torch/torch.h>

#include <string>
#include <vector>

#include "core/table.h"

namespace dtrain::tasks {

// float64 [classes, classes] on the device of the arguments (int64 [B]): entry (t, p) counts samples of class t that
// were taken for p. No host synchronisation, and the same bits in any order.
at::Tensor confusion(const at::Tensor& targets, const at::Tensor& predictions, int64_t classes);

inline constexpr int64_t kLargestConfusion = 100;  // classes: the matrix of more is no table for people or log files

// Of a confusion matrix on the CPU.
double accuracy(const at::Tensor& confusion);
// The mean over the classes that occur, as a target or as a prediction, of 2 TP / (2 TP + FP + FN).
double macro_f1(const at::Tensor& confusion);
// Columns precision, recall, f1, samples; NaN where there is nothing to divide by.
Table class_table(const at::Tensor& confusion, const std::vector<std::string>& classes);
Table confusion_table(const at::Tensor& confusion, const std::vector<std::string>& classes);

}  // namespace dtrain::tasks
