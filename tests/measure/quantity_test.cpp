#include "measure/quantity.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace dtrain::measure {
namespace {

TEST(Quantities, HaveUnitsAndTextsAndOneKeyEach) {
  std::set<std::string> keys, series;
  for (const Quantity quantity : all_quantities()) {
    const QuantityRow& row = row_of(quantity);
    EXPECT_FALSE(row.unit.empty()) << row.key;
    EXPECT_FALSE(help_of(quantity).empty()) << row.key << row.metric;
    const std::string group(row.group), key(row.key);
    if (!key.empty()) {
      EXPECT_TRUE(keys.insert(group + "." + key).second) << group << "." << key;
    }
    const std::string labels = std::string(row.label) + "=" + std::string(row.value);
    if (row.metric.empty()) continue;
    EXPECT_TRUE(series.insert(std::string(row.metric) + labels).second) << row.metric << labels;
  }
  EXPECT_GT(keys.size(), 30u);
}

// Prometheus' rules for names: a counter ends in _total, and base units stand in the name.
TEST(Quantities, HaveMetricsWithTheNamesOfTheirKinds) {
  for (const QuantityRow& row : quantity_rows()) {
    if (row.metric.empty()) continue;
    EXPECT_EQ(row.metric.ends_with("_total"), counts_up(row)) << row.metric;
    EXPECT_TRUE(row.metric.starts_with("dtrain_")) << row.metric;
    if (row.unit == "s") {
      EXPECT_NE(row.metric.find("seconds"), std::string_view::npos) << row.metric;
    }
    if (row.unit == "bytes") {
      EXPECT_NE(row.metric.find("bytes"), std::string_view::npos) << row.metric;
    }
  }
}

TEST(Quantities, AreWeightedByASum) {
  for (const QuantityRow& row : quantity_rows()) {
    if (row.weight != Quantity::kCount) {
      EXPECT_EQ(row.kind, QuantityKind::kMean) << row.key;
      EXPECT_EQ(row_of(row.weight).kind, QuantityKind::kSum) << row.key;
    }
  }
}

}  // namespace
}  // namespace dtrain::measure
