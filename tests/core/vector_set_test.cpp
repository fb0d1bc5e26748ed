#include "core/vector_set.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace dtrain {
namespace {

TEST(VectorSet, IsNeverMoreThanTheLimit) {
  const VectorSet of_cpu = widest_vectors();
  for (const VectorSet most : {VectorSet::kAny, VectorSet::kAvx2, VectorSet::kAvx512}) {
    limit_vectors(most);
    EXPECT_EQ(widest_vectors(), std::min(most, of_cpu));
  }
}

TEST(VectorSet, ProductsOfBfloat16NeedTheWidest) {
  EXPECT_TRUE(!has_bfloat16_products() || widest_vectors() == VectorSet::kAvx512);
}

}  // namespace
}  // namespace dtrain
