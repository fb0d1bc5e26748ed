#pragma once

// A small dtrain file whose samples have different numbers of rows. A row has 3 values; the target
// is an order (one number per row) or a class. All values are functions of the sample's id.

#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "data/hdf5/data_set.h"

namespace dtrain::testing {

inline const std::vector<int64_t> kRowCounts{4, 1, 7, 3, 7, 2};

inline data::Schema row_schema(bool orders, int64_t samples = 6) {
  return {orders ? "pointer" : "sequence",
          {data::Element::kFloat32, {data::kVariable, 3}},
          {data::Element::kInt64,
           orders ? std::vector<int64_t>{data::kVariable} : std::vector<int64_t>{}},
          samples,
          0};
}

inline std::vector<float> rows_of(int64_t id) {
  std::vector<float> values(static_cast<size_t>(kRowCounts[static_cast<size_t>(id)] * 3));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(id) + static_cast<float>(i) / 8;
  return values;
}

inline std::vector<int64_t> row_targets_of(bool orders, int64_t id) {
  if (!orders) return {id % 3};
  std::vector<int64_t> order(static_cast<size_t>(kRowCounts[static_cast<size_t>(id)]));
  std::iota(order.rbegin(), order.rend(), 0);
  return order;
}

inline void write_row_set(const std::filesystem::path& file, bool orders,
                          const data::Writer::Extras& extras) {
  const auto writer = data::Writer::create(file, row_schema(orders), kRowCounts,
                                           orders ? kRowCounts : std::vector<int64_t>());
  for (int64_t id = 5; id >= 0; --id) {
    writer->write(id, bytes_of(rows_of(id)), bytes_of(row_targets_of(orders, id)));
  }
  writer->finish(extras);
}

}  // namespace dtrain::testing
