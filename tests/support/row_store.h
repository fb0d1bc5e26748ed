#pragma once

// A store without a file whose samples have different numbers of rows. Values, targets and lengths
// are functions of the sample id. Single samples can be made bad.

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "data/hdf5/layout.h"
#include "data/store.h"
#include "support/made_origin.h"
#include "text/strings.h"

namespace dtrain::testing {

class RowStore : public data::Store, public MadeOrigin {
 public:
  static constexpr int64_t kColumns = 3;

  // orders: each sample has one target per row; otherwise one class.
  RowStore(int64_t samples, int64_t longest, bool orders)
      : MadeOrigin("rows.h5", "walks/", ".npy"), longest_(longest) {
    schema_.task = "test";
    schema_.input = {data::Element::kFloat32, {data::kVariable, kColumns}};
    schema_.target = {data::Element::kInt64,
                      orders ? std::vector<int64_t>{data::kVariable} : std::vector<int64_t>{}};
    schema_.samples = samples;
  }

  std::set<int64_t> unreadable, not_a_number, infinite, rotten, empty;
  data::Schema& schema_to_change() { return schema_; }

  static float value(int64_t id, int64_t i) {
    return static_cast<float>(id) + static_cast<float>(i) / 64;
  }
  static int64_t target(int64_t id, int64_t i) { return id * 100 + i; }

  const data::Schema& schema() const override { return schema_; }
  const data::Origin& origin() const override { return *this; }
  int64_t input_rows(int64_t id) const override {
    if (!schema_.input.variable()) return 1;
    if (empty.count(id)) return 0;
    return 1 + static_cast<int64_t>(keyed(17, static_cast<uint64_t>(id)) %
                                    static_cast<uint64_t>(longest_));
  }
  int64_t target_rows(int64_t id) const override {
    return schema_.target.variable() ? input_rows(id) : 1;
  }
  void read_input(int64_t id, std::span<std::byte> out) const override {
    if (unreadable.count(id)) throw DataError(str(name(id), ": the test wants this"));
    std::vector<float> values(out.size() / sizeof(float));
    for (size_t i = 0; i < values.size(); ++i) values[i] = value(id, static_cast<int64_t>(i));
    if (not_a_number.count(id)) values.back() = std::numeric_limits<float>::quiet_NaN();
    if (infinite.count(id)) values.front() = -std::numeric_limits<float>::infinity();
    if (rotten.count(id)) values.front() += 1;
    std::memcpy(out.data(), values.data(), out.size());
  }
  void read_target(int64_t id, std::span<std::byte> out) const override {
    for (size_t i = 0; i < out.size() / sizeof(int64_t); ++i) {
      const int64_t number = target(id, static_cast<int64_t>(i));
      std::memcpy(out.data() + i * sizeof(number), &number, sizeof(number));
    }
  }
  uint64_t checksum(int64_t id) const override {
    std::vector<std::byte> input(static_cast<size_t>(input_bytes(id))),
        targets(static_cast<size_t>(target_bytes(id)));
    std::vector<float> values(input.size() / sizeof(float));
    for (size_t i = 0; i < values.size(); ++i) values[i] = value(id, static_cast<int64_t>(i));
    std::memcpy(input.data(), values.data(), input.size());
    read_target(id, targets);
    return data::sample_checksum(input, targets);
  }
  void verify(const ReportProgress&) const override {}

 private:
  data::Schema schema_;
  int64_t longest_;
};

}  // namespace dtrain::testing
