#include "layers/lengths.h"

#include <gtest/gtest.h>
#include <torch/types.h>

namespace dtrain::layers {
namespace {

TEST(ValidPositions, AreThoseBelowTheLength) {
  const at::Tensor valid = valid_positions(at::tensor({2, 0, 3}, at::kLong), 3);
  EXPECT_TRUE(at::equal(valid.to(at::kLong), at::tensor({1, 1, 0, 0, 0, 0, 1, 1, 1}, at::kLong).view({3, 3})));
}

TEST(ValidLength, IsLimitedToThePositions) {
  EXPECT_EQ(valid_length(-1, 5), 0);
  EXPECT_EQ(valid_length(4, 5), 4);
  EXPECT_EQ(valid_length(9, 5), 5);
}

std::vector<LengthGroup> groups_of(const std::vector<int64_t>& lengths, int64_t most) {
  return group_by_length(lengths.data(), static_cast<int64_t>(lengths.size()), most).groups;
}

TEST(LengthGroups, DivideTheBatchByDecreasingLength) {
  const std::vector<int64_t> lengths = {5, 9, 1, 9, 7};
  const LengthGroups plan = group_by_length(lengths.data(), 5, 2);
  EXPECT_EQ(plan.order, (std::vector<int64_t>{1, 3, 4, 0, 2}));
  EXPECT_EQ(plan.groups, (std::vector<LengthGroup>{{0, 2, 9}, {2, 2, 7}, {4, 1, 1}}));
}

TEST(LengthGroups, AreOneForFewSamplesAndNoneForNone) {
  EXPECT_EQ(groups_of({4}, 8), (std::vector<LengthGroup>{{0, 1, 4}}));
  EXPECT_EQ(groups_of({}, 8), (std::vector<LengthGroup>{}));
  EXPECT_EQ(groups_of({4, 4}, 2), (std::vector<LengthGroup>{{0, 2, 4}}));
}

}  // namespace
}  // namespace dtrain::layers
