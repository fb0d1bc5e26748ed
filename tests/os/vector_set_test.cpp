#include "os/vector_set.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace dtrain {
namespace {

TEST(VectorSet, IsNeverMoreThanLibTorchsLimit) {
  EXPECT_EQ(vectors_allowed_by("default"), VectorSet::kAny);
  EXPECT_EQ(vectors_allowed_by("avx2"), VectorSet::kAvx2);
  for (const char* value : {"avx512", "", "AVX2", "sse4"})
    EXPECT_EQ(vectors_allowed_by(value), VectorSet::kAvx512);
  EXPECT_EQ(vectors_allowed_by(nullptr), VectorSet::kAvx512);
  EXPECT_LE(
      widest_vectors(),
      vectors_allowed_by(std::getenv("ATEN_CPU_CAPABILITY")));  // set by the tests of label isa
}

TEST(VectorSet, ProductsOfBfloat16NeedTheWidest) {
  const bool limited = std::getenv("ATEN_CPU_CAPABILITY") != nullptr;
  EXPECT_TRUE(!has_bfloat16_products() || limited || widest_vectors() == VectorSet::kAvx512);
}

}  // namespace
}  // namespace dtrain
