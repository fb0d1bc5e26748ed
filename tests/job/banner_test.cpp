#include "job/banner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain::job {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Banner, SaysWhatAnotherPrecisionWouldGain) {
  const std::vector<RankResources> ranks(1);
  BannerFacts facts;
  EXPECT_THAT(banner(facts, ranks), Not(HasSubstr("\n  precision")));
  facts.precision_advice = "try --amp bf16";
  EXPECT_THAT(banner(facts, ranks), HasSubstr("\n  precision  try --amp bf16\n"));
}

}  // namespace
}  // namespace dtrain::job
