#include "core/random.h"

#include <gtest/gtest.h>

#include <set>

namespace dtrain {
namespace {

TEST(Keyed, DistinguishesOrderAndPosition) {
  std::set<uint64_t> words;
  for (uint64_t a = 0; a < 30; ++a) {
    for (uint64_t b = 0; b < 30; ++b) {
      for (uint64_t c = 0; c < 30; ++c) words.insert(keyed(a, b, c));
    }
  }
  EXPECT_EQ(words.size(), 27000u);
}

TEST(Uniform, IsUniform) {
  double sum = 0, squares = 0;
  constexpr int kDraws = 100000;
  for (uint64_t i = 0; i < kDraws; ++i) {
    const float u = uniform01(keyed(7, i));
    ASSERT_GE(u, 0.0f);
    ASSERT_LT(u, 1.0f);
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.005);
  EXPECT_NEAR(squares / kDraws, 1.0 / 3, 0.005);
}

}  // namespace
}  // namespace dtrain
