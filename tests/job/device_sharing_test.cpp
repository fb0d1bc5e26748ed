// Which ranks share the memory of a device.

#include "job/device_sharing.h"

#include <gtest/gtest.h>

#include <vector>

namespace dtrain::job {
namespace {

// As many ranks with one visible GPU each, of which all are number 0, as with all of them visible.
TEST(SharingOf, CountsTheRanksOnTheSameDevice) {
  const std::vector<std::string> own = {"aa", "bb", "cc", "dd"};
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(sharing_of(own, rank).ranks, 1) << rank;
    EXPECT_TRUE(sharing_of(own, rank).first) << rank;
  }
  const std::vector<std::string> shared = {"aa", "bb", "aa", "bb", "aa"};
  EXPECT_EQ(sharing_of(shared, 2).ranks, 3);
  EXPECT_EQ(sharing_of(shared, 3).ranks, 2);
  EXPECT_TRUE(sharing_of(shared, 0).first);
  EXPECT_TRUE(sharing_of(shared, 1).first);
  EXPECT_FALSE(sharing_of(shared, 2).first);
}

}  // namespace
}  // namespace dtrain::job
