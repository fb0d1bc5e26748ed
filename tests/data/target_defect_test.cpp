#include "data/target_defect.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <vector>

namespace dtrain::data {
namespace {

using ::testing::HasSubstr;
using Numbers = std::vector<int64_t>;

Schema schema_of(const std::string& task, const std::vector<int64_t>& target_shape) {
  Schema schema;
  schema.task = task;
  schema.target = {Element::kInt64, target_shape};
  return schema;
}
const Schema kClasses = schema_of("classify", {});
const Schema kOrders = schema_of("pointer", {kVariable});

TEST(OrderDefect, APermutationHasNone) {
  EXPECT_EQ(order_defect(Numbers{0}, 1), "");
  EXPECT_EQ(order_defect(Numbers{2, 0, 1}, 3), "");
}

TEST(OrderDefect, SaysWhichElementIsWrong) {
  EXPECT_THAT(order_defect(Numbers{0, 1, 1}, 3), HasSubstr("element 1 twice"));
  EXPECT_THAT(order_defect(Numbers{0, 3, 1}, 3), HasSubstr("element 3 of a set of 3"));
  EXPECT_THAT(order_defect(Numbers{0, -1, 1}, 3), HasSubstr("element -1"));
  EXPECT_THAT(order_defect(Numbers{0, 1}, 3), HasSubstr("2 of 3 elements"));
  EXPECT_THAT(order_defect(Numbers{0, 1, 2, 3}, 3), HasSubstr("4 of 3 elements"));
}

TEST(TargetDefect, AClassMustBeOneOfThem) {
  EXPECT_EQ(target_defect(kClasses, 3, Numbers{0}, 1), "");
  EXPECT_EQ(target_defect(kClasses, 3, Numbers{2}, 1), "");
  EXPECT_THAT(target_defect(kClasses, 3, Numbers{3}, 1), HasSubstr("class 3 is not one of the 3"));
  EXPECT_THAT(target_defect(kClasses, 3, Numbers{-2}, 1), HasSubstr("class -2"));
  EXPECT_EQ(target_defect(kClasses, 0, Numbers{7}, 1), "") << "how many there are is not known";
}

TEST(TargetDefect, AnOrderMustNameEachRowOnce) {
  EXPECT_EQ(target_defect(kOrders, 0, Numbers{1, 0}, 2), "");
  EXPECT_THAT(target_defect(kOrders, 0, Numbers{1, 0}, 3), HasSubstr("2 of 3"));
  EXPECT_THAT(target_defect(kOrders, 0, Numbers{1, 1}, 2), HasSubstr("element 1 twice"));
}

TEST(TargetDefect, WhatNobodySaidCannotBeLearned) {
  EXPECT_THAT(target_defect(kClasses, 3, Numbers{-1}, 1), HasSubstr("class -1"));
  EXPECT_THAT(target_defect(kOrders, 0, Numbers{-1, -1}, 2), HasSubstr("element -1"));
}

TEST(TargetDefect, WhatIsNeitherClassNorOrderHasNone) {
  EXPECT_EQ(target_defect(schema_of("module", {2}), 3, Numbers{9, 9}, 1), "");
}

TEST(TargetDefect, NumbersAreFiniteAndWithinTheLimit) {
  const std::vector<float> good{-2, 0, 2}, nan{0, NAN}, far{0, 0, -2.5f}, infinite{INFINITY};
  EXPECT_EQ(target_defect(good, 2), "");
  EXPECT_EQ(target_defect(nan, 2), "target 1 is nan");
  EXPECT_EQ(target_defect(far, 2), "target 2 is -2.5");
  EXPECT_EQ(target_defect(infinite, std::numeric_limits<float>::max()), "target 0 is inf");
}

}  // namespace
}  // namespace dtrain::data
