#include "data/loader/finite.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace dtrain::data {
namespace {

TEST(Finite, FindsTheFirstBadValueWhereverItIs) {
  const float bad[] = {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN(),
                       std::numeric_limits<float>::signaling_NaN(), std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity()};
  for (size_t size : {0, 1, 3, 8, 31, 100}) {
    std::vector<float> values(size, std::numeric_limits<float>::max());
    for (size_t i = 0; i < size; i += 2) values[i] = i % 4 ? -std::numeric_limits<float>::denorm_min() : -0.0f;
    EXPECT_TRUE(all_finite(values));
    EXPECT_EQ(first_not_finite(values), -1);
    for (size_t at = 0; at < size; ++at) {
      std::vector<float> spoiled = values;
      spoiled[at] = bad[at % 5];
      spoiled[size - 1] = bad[0];
      EXPECT_FALSE(all_finite(spoiled));
      EXPECT_EQ(first_not_finite(spoiled), static_cast<int64_t>(at));
    }
  }
}

}  // namespace
}  // namespace dtrain::data
