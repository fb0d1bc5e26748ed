#include "data/target_defect.h"

#include <gmock/gmock.h>

#include <cstring>
#include <vector>

#include "data/row_store.h"

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

TEST(UnknownTarget, IsMinusOneThroughout) {
  EXPECT_TRUE(unknown_target(Numbers{-1}));
  EXPECT_TRUE(unknown_target(Numbers{-1, -1}));
  EXPECT_FALSE(unknown_target(Numbers{-1, 0}));
  EXPECT_FALSE(unknown_target(Numbers{-2}));
  EXPECT_FALSE(unknown_target(Numbers{}));
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

TEST(TargetDefect, WhatIsUnknownOrNeitherClassNorOrderHasNone) {
  EXPECT_EQ(target_defect(kClasses, 3, Numbers{-1}, 1), "");
  EXPECT_EQ(target_defect(kOrders, 0, Numbers{-1, -1}, 5), "");
  EXPECT_EQ(target_defect(schema_of("module", {2}), 3, Numbers{9, 9}, 1), "");
}

class StoreOf : public testing::RowStore {
 public:
  explicit StoreOf(std::vector<Numbers> targets)
      : RowStore(static_cast<int64_t>(targets.size()), 4, true), targets_(std::move(targets)) {}
  int64_t target_rows(int64_t id) const override { return static_cast<int64_t>(of(id).size()); }
  void read_target(int64_t id, std::span<std::byte> out) const override {
    std::memcpy(out.data(), of(id).data(), out.size());
  }

 private:
  const Numbers& of(int64_t id) const { return targets_[static_cast<size_t>(id)]; }
  std::vector<Numbers> targets_;
};

TEST(FirstUnknownTarget, IsFoundByItsId) {
  EXPECT_EQ(first_unknown_target(StoreOf({{0}, {-1, 0}})), std::nullopt);
  EXPECT_EQ(first_unknown_target(StoreOf({{0}, {1, 0}, {-1, -1}, {-1}})), 2);
}

}  // namespace
}  // namespace dtrain::data
