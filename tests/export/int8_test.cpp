#include "export/int8.h"

#include <gtest/gtest.h>

namespace dtrain::exporting {
namespace {

TEST(Histogram, CountsMoreThanFloat32Can) {
  constexpr int64_t kMost = int64_t{1} << 24;
  Histogram histogram{.low = 0, .high = 1, .counts = std::vector<int64_t>(4)};
  const at::Tensor values = at::zeros({kMost + 1}, at::kFloat);
  count(values, histogram);
  EXPECT_EQ(histogram.counts, (std::vector<int64_t>{kMost + 1, 0, 0, 0}));
  count(at::tensor({0.3f, 0.9f, 1.0f}), histogram);
  EXPECT_EQ(histogram.counts, (std::vector<int64_t>{kMost + 1, 1, 0, 2}));
}

}  // namespace
}  // namespace dtrain::exporting
