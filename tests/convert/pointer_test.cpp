#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "convert/convert.h"
#include "convert/pointer_file.h"
#include "core/error.h"
#include "data/hdf5/file_store.h"
#include "formats/npz.h"
#include "os/file_system.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "text/strings.h"

namespace dtrain::convert {
namespace {

using testing::expect_error;
using Floats = std::vector<float>;
using Numbers = std::vector<int64_t>;
using Arrays = std::map<std::string, std::vector<std::byte>>;

class Pointer : public ::testing::Test {
 protected:
  // `sets` sets of two elements, in arrays padded to three.
  Arrays padded(int64_t sets, int64_t width) const {
    Floats features;
    Numbers order;
    for (int64_t i = 0; i < sets * 3 * width; ++i) features.push_back(static_cast<float>(i));
    for (int64_t i = 0; i < sets; ++i) order.insert(order.end(), {1, 0, -1});
    return {{"features", formats::to_npy(features, {sets, 3, width})},
            {"order", formats::to_npy(order, {sets, 3})}};
  }
  ConvertSummary converted(const Arrays& arrays) const {
    formats::write_npz(files / "p.npz", arrays);
    ConvertOptions o;
    o.source = files / "p.npz";
    o.out = files / "o.h5";
    o.force = true;
    return convert("pointer", o);
  }
  void refused(const Arrays& arrays, const std::vector<std::string>& parts) const {
    expect_error<DataError>([&] { converted(arrays); }, parts);
  }
  testing::TempDir files;
};

TEST_F(Pointer, AddsIsVisitedToSevenFeatures) {
  const ConvertSummary summary = converted(padded(20, 7));
  EXPECT_EQ(summary.kept, 20);
  EXPECT_EQ(summary.splits,
            (std::map<std::string, int64_t>{{"test", 2}, {"train", 16}, {"val", 2}}));
  const auto store = data::open_file(files / "o.h5");
  store->verify();
  EXPECT_EQ(store->schema().task, "pointer");
  EXPECT_EQ(store->schema().input, (data::Field{data::Element::kFloat32, {data::kVariable, 8}}));
  EXPECT_EQ(store->schema().target, (data::Field{data::Element::kInt64, {data::kVariable}}));
  EXPECT_EQ(store->origin().source(3), "p.npz#3");
  EXPECT_EQ(data::read_input_as<float>(*store, 1),
            (Floats{21, 22, 23, 24, 25, 26, 27, 0, 28, 29, 30, 31, 32, 33, 34, 0}));
  EXPECT_EQ(data::read_target_as<int64_t>(*store, 1), (Numbers{1, 0}));
}

TEST_F(Pointer, KeepsEightFeatures) {
  converted(padded(4, 8));
  EXPECT_EQ(data::read_input_as<float>(*data::open_file(files / "o.h5"), 0)[7], 7);
}

TEST_F(Pointer, UsesTheFilesLengthsAndSplits) {
  Arrays arrays = padded(3, 7);
  arrays["lengths"] = formats::to_npy(Numbers{2, 1, 3}, {3});
  arrays["order"] = formats::to_npy(Numbers{0, 1, -1, 0, -1, -1, 2, 1, 0}, {3, 3});
  arrays["split"] = formats::to_npy(Numbers{2, 1, 0}, {3});
  converted(arrays);
  const auto store = data::open_file(files / "o.h5");
  EXPECT_EQ(store->input_rows(1), 1);
  EXPECT_EQ(store->input_rows(2), 3);
  EXPECT_EQ(store->origin().split("train"), Numbers{2});
  EXPECT_EQ(store->origin().split("val"), Numbers{1});
  EXPECT_EQ(store->origin().split("test"), Numbers{0});
}

TEST_F(Pointer, ReadsRaggedSets) {
  Floats values(6 * 7, 1.0f);
  const Arrays arrays{{"values", formats::to_npy(values, {6, 7})},
                      {"offsets", formats::to_npy(Numbers{0, 1, 4, 6}, {4})},
                      {"order", formats::to_npy(Numbers{0, 2, 0, 1, 1, 0}, {6})}};
  EXPECT_EQ(converted(arrays).kept, 3);
  const auto store = data::open_file(files / "o.h5");
  EXPECT_EQ(data::read_target_as<int64_t>(*store, 1), (Numbers{2, 0, 1}));
  Arrays wrong = arrays;
  wrong["offsets"] = formats::to_npy(Numbers{0, 4, 1, 6}, {4});
  refused(wrong, {"p.npz", "offsets do not rise from 0 to 6"});
  wrong.erase("offsets");
  refused(wrong, {"no offsets"});
  wrong = arrays;
  wrong["order"] = formats::to_npy(Numbers{0, 1}, {2});
  refused(wrong, {"order", "expected [6]"});
}

TEST_F(Pointer, QuarantinesUnusableSetsByNumber) {
  Arrays arrays = padded(9, 7);
  Floats features(9 * 3 * 7, 0.5f);
  features[(1 * 3 + 1) * 7 + 4] = NAN;
  features[(2 * 3 + 2) * 7] = INFINITY;  // beyond the length of 2, so it is ignored
  arrays["features"] = formats::to_npy(features, {9, 3, 7});
  arrays["lengths"] = formats::to_npy(Numbers{2, 2, 2, 2, 2, 4, 0, -1, 2}, {9});
  arrays["order"] = formats::to_npy(Numbers{1,  0, -1, 1, 0,  -1, 1,  0, -1, 1,  1, -1, 2, 0,
                                            -1, 0, 1,  2, -1, -1, -1, 0, 1,  -1, 1, 0,  2},
                                    {9, 3});
  const ConvertSummary summary = converted(arrays);
  EXPECT_EQ(summary.kept, 2);
  std::map<std::string, std::string> why;
  for (const Quarantined& entry : summary.quarantined) why[entry.name] = entry.reason;
  EXPECT_EQ(why.size(), 7u);
  const auto says = [&](int64_t set, const char* part) {
    EXPECT_NE(why[str("p.npz#", set)].find(part), std::string::npos)
        << set << ": " << why[str("p.npz#", set)];
  };
  says(1, "NaN in element 1, feature 4");
  says(3, "not a permutation of 0 to 1: 1 occurs twice");
  says(4, "not a permutation of 0 to 1: 2 is out of range");
  says(5, "its length is 4, the array has room for 3");
  says(6, "no elements");
  says(7, "its length is -1");
  says(8, "continues after them with 2");
}

TEST_F(Pointer, RefusesOtherFormsAndNamesTheExpectedOnes) {
  refused({{"x", formats::to_npy(Floats{1}, {1})}},
          {"its arrays are x", "features [N, L, 7 or 8]"});
  Arrays arrays = padded(2, 7);
  arrays.erase("order");
  refused(arrays, {"no order"});
  arrays["order"] = formats::to_npy(Numbers{0, 1}, {1, 2});
  refused(arrays, {"order", "expected [2, L]"});
  arrays["order"] = formats::to_npy(Floats{0, 1.5f, 2, 3}, {2, 2});
  refused(arrays, {"order", "1.5"});
  refused(padded(2, 5), {"features", "[2, 3, 5]"});
  refused({{"features", formats::to_npy(Floats{}, {5, 0, 7})}}, {"[5, 0, 7]"});
  arrays = padded(2, 7);
  arrays["lengths"] = formats::to_npy(Numbers{1}, {1});
  refused(arrays, {"lengths", "expected [2]"});
  arrays = padded(2, 7);
  arrays["split"] = formats::to_npy(Numbers{0, 3}, {2});
  refused(arrays, {"split contains 3"});
  std::ofstream(files / "p.npz") << "no archive";
  ConvertOptions o;
  o.source = files / "p.npz";
  o.out = files / "x.h5";
  expect_error<DataError>([&] { convert("pointer", o); }, {"p.npz", "not a .npz file"});
  o.source = files / "absent.npz";
  expect_error<DataError>([&] { convert("pointer", o); }, {"no such file", "absent.npz"});
}

}  // namespace
}  // namespace dtrain::convert
