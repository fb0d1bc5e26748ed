#include "data/order/length_classes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "core/random.h"

namespace dtrain::data {
namespace {

using Classes = std::vector<int64_t>;

int64_t padded_rows(const std::vector<PaddedLength>& lengths, const Classes& classes) {
  int64_t rows = 0;
  for (const PaddedLength& one : lengths) rows += one.samples * rounded_up(classes, one.length);
  return rows;
}

// The fewest rows with any `count` of the lengths that include the longest: by trying them all.
int64_t fewest_rows(const std::vector<PaddedLength>& lengths, int64_t count) {
  const size_t n = lengths.size();
  int64_t fewest = std::numeric_limits<int64_t>::max();
  for (uint64_t chosen = 1; chosen < uint64_t{1} << n; ++chosen) {
    Classes classes;
    for (size_t i = 0; i < n; ++i) {
      if ((chosen >> i & 1) != 0) classes.push_back(lengths[i].length);
    }
    if (static_cast<int64_t>(classes.size()) > count || classes.back() != lengths.back().length)
      continue;
    fewest = std::min(fewest, padded_rows(lengths, classes));
  }
  return fewest;
}

TEST(LengthClasses, AddTheFewestRows) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    std::vector<PaddedLength> lengths;  // ascending
    for (int64_t i = 0, length = 0; i < 9; ++i) {
      length += 1 + static_cast<int64_t>(keyed(seed, i) % 20);
      lengths.push_back({length, 1 + static_cast<int64_t>(keyed(seed, i, 1) % 50)});
    }
    for (int64_t count = 1; count <= 10; ++count) {
      const Classes classes = length_classes(lengths, count);
      EXPECT_LE(static_cast<int64_t>(classes.size()), count);
      EXPECT_TRUE(std::ranges::is_sorted(classes));
      EXPECT_EQ(classes.back(), lengths.back().length);
      EXPECT_EQ(padded_rows(lengths, classes), fewest_rows(lengths, count))
          << seed << ", " << count << " classes";
    }
  }
}

TEST(LengthClasses, WithEnoughOfThemNothingIsAdded) {
  EXPECT_EQ(length_classes({{7, 2}, {3, 1}, {7, 1}, {5, 4}}, 3), (Classes{3, 5, 7}));
  EXPECT_EQ(length_classes({{7, 2}, {3, 1}}, 20), (Classes{3, 7}));
}

TEST(LengthClasses, IgnoreWhatIsEmpty) {
  EXPECT_EQ(length_classes({}, 3), Classes{});
  EXPECT_EQ(length_classes({{0, 5}, {9, 0}}, 3), Classes{});
  EXPECT_EQ(length_classes({{0, 5}, {9, 1}}, 3), Classes{9});
  EXPECT_THROW(length_classes({{9, 1}}, 0), Error);
}

// Neighbors are joined where there are many distinct lengths: the longest is still a class, and
// the loss is small.
TEST(LengthClasses, OfManyLengthsAreNearlyTheBest) {
  std::vector<PaddedLength> lengths;
  for (int64_t length = 1; length <= 10000; ++length) lengths.push_back({length, 1});
  const Classes classes = length_classes(lengths, 4);
  ASSERT_EQ(classes.size(), 4u);
  EXPECT_EQ(classes.back(), 10000);
  const Classes best = {2500, 5000, 7500, 10000};
  EXPECT_LT(static_cast<double>(padded_rows(lengths, classes)),
            1.001 * static_cast<double>(padded_rows(lengths, best)));
}

TEST(RoundedUp, IsTheNextClassAndNothingBeyondTheLast) {
  const Classes classes = {4, 9};
  EXPECT_EQ(rounded_up(classes, 0), 0);
  EXPECT_EQ(rounded_up(classes, 1), 4);
  EXPECT_EQ(rounded_up(classes, 4), 4);
  EXPECT_EQ(rounded_up(classes, 5), 9);
  EXPECT_EQ(rounded_up(classes, 10), 10);
  EXPECT_EQ(rounded_up({}, 5), 5);
}

}  // namespace
}  // namespace dtrain::data
