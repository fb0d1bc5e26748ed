// The groups of the optimizer are made once, not in each step.

#include <gtest/gtest.h>

#include <string>

#include "support/count_allocations.h"
#include "train/optimizer.h"

namespace dtrain::train {
namespace {

TEST(OptimizerCost, GroupsAreMadeAgainForNewGradientsOnly) {
  std::vector<dist::NamedParameter> parameters;
  for (int i = 0; i < 200; ++i) {
    const at::Tensor parameter = at::ones({4}).requires_grad_(true);
    parameter.mutable_grad() = at::ones({4});
    parameters.push_back({std::to_string(i), parameter});
  }
  config::OptimizerConfig options;
  options.name = config::OptimizerName::kSgd;
  options.momentum = 0.9;
  Optimizer optimizer(options, parameters);
  const at::Tensor rate = at::full({}, 0.1, at::kDouble);
  const auto allocations_of_step = [&] {
    const int64_t before = testing::allocations();
    optimizer.step(rate, {}, {}, {});
    return testing::allocations() - before;
  };
  const int64_t first = allocations_of_step(), second = allocations_of_step(),
                third = allocations_of_step();
  EXPECT_LT(second, first);
  EXPECT_EQ(third, second);
  parameters[7].tensor.mutable_grad() = at::ones({4});
  EXPECT_GT(allocations_of_step(), third);
  EXPECT_EQ(allocations_of_step(), third);
}

}  // namespace
}  // namespace dtrain::train
