#include "layers/lengths.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "kernels/lengths.h"

namespace dtrain::layers {
namespace {

TEST(ValidPositions, AreThoseBelowTheLength) {
  const at::Tensor valid = valid_positions(at::tensor({2, 0, 3}, at::kLong), 3);
  EXPECT_TRUE(at::equal(valid.to(at::kLong),
                        at::tensor({1, 1, 0, 0, 0, 0, 1, 1, 1}, at::kLong).view({3, 3})));
  EXPECT_TRUE(
      at::equal(padded_positions(at::tensor({2, 0, 3}, at::kLong), 3), valid.logical_not()));
}

TEST(ValidLength, IsLimitedToThePositions) {
  EXPECT_EQ(kernels::valid_length(-1, 5), 0);
  EXPECT_EQ(kernels::valid_length(4, 5), 4);
  EXPECT_EQ(kernels::valid_length(9, 5), 5);
}

}  // namespace
}  // namespace dtrain::layers
