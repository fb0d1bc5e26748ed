// How much memory a rank may use.

#include <gtest/gtest.h>

#include "tune/memory_budget.h"

namespace dtrain::tune {
namespace {

TEST(ShareOfMemory, LeavesATenthAndIsEqual) {
  EXPECT_EQ(share_of_memory(1000, 1), 900);
  EXPECT_EQ(share_of_memory(1000, 3), 300);
  EXPECT_EQ(share_of_memory(1000, 0), 900) << "at least one rank uses it";
}

}  // namespace
}  // namespace dtrain::tune
