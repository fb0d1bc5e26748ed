// What decides whether a graph did what the steps without it did. Graphs themselves run on fake
// GPUs: tests/fake_gpu/step_graphs_test.py.

#include "train/step_graphs.h"

#include <gtest/gtest.h>

#include <limits>

namespace dtrain::train {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr double kShare = 0.1;

Tensors tensors(double a, double b, int64_t count) {
  return {at::full({4}, a, at::kDouble), at::full({2, 2}, b, at::kFloat), at::tensor(count)};
}

TEST(FirstDifference, OfEqualTensorsThereIsNone) {
  const Tensors before = tensors(1, 2, 3), after = tensors(1.5, 2, 4);
  EXPECT_EQ(first_difference(before, after, tensors(1.5, 2, 4), 0), -1);
  EXPECT_EQ(first_difference(before, after, tensors(1.5, 2, 4), kShare), -1);
}

TEST(FirstDifference, IsInRelationToWhatHasChanged) {
  const Tensors before = tensors(1, 2, 3), after = tensors(1.5, 2.5, 4);
  EXPECT_EQ(first_difference(before, after, tensors(1.51, 2.51, 4), kShare), -1);
  EXPECT_EQ(first_difference(before, after, tensors(1.51, 2.5, 4), 0), 0) << "other bits";
  EXPECT_EQ(first_difference(before, after, tensors(1.6, 2.5, 4), kShare), 0);
  EXPECT_EQ(first_difference(before, after, tensors(1.5, 2, 4), kShare), 1) << "was not changed";
  EXPECT_EQ(first_difference(before, after, tensors(1.5, 2.5, 3), kShare), 2);
}

TEST(FirstDifference, WhatIsNextToNothingIsNone) {
  Tensors before = tensors(0, 0, 0), after = tensors(1000, 1e-5, 0);
  EXPECT_EQ(first_difference(before, after, tensors(1000, 0, 0), kShare), -1);
  EXPECT_EQ(first_difference(before, after, tensors(1000, 1, 0), kShare), 1);
}

TEST(FirstDifference, NumbersThatAreNotFiniteAreCompared) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const Tensors before = tensors(1, 2, 3), after = tensors(kNan, 2, 3);
  EXPECT_EQ(first_difference(before, after, tensors(kNan, 2, 3), kShare), -1);
  EXPECT_EQ(first_difference(before, after, tensors(1, 2, 3), kShare), 0);
  EXPECT_EQ(first_difference(before, tensors(1, 2, 3), tensors(kNan, 2, 3), kShare), 0);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(first_difference(before, tensors(kInfinity, 2.5, 3), tensors(kInfinity, 2, 3), kShare),
            1)
      << "next to infinity all is small";
}

}  // namespace
}  // namespace dtrain::train
