#include "data/loader/sample_check.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <vector>

#include "data/hdf5/data_set.h"
#include "data/hdf5/file_store.h"
#include "data/hdf5/row_set.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace dtrain::data {
namespace {

using testing::expect_error;
using ::testing::HasSubstr;
using Numbers = std::vector<int64_t>;
using Floats = std::vector<float>;

SampleSpec of_classes(int64_t classes) {
  SampleSpec spec;
  spec.classes = classes;
  return spec;
}
SampleSpec of_orders() {
  SampleSpec spec;
  spec.kind = SampleSpec::Kind::kRows;
  spec.target_is_order = true;
  return spec;
}

std::string defect(const SampleSpec& spec, const Numbers& target, int64_t rows = 1) {
  return target_defect(spec, Element::kInt64, std::as_bytes(std::span(target)), rows);
}
std::string defect(const SampleSpec& spec, const Floats& target) {
  return target_defect(spec, Element::kFloat32, std::as_bytes(std::span(target)), 1);
}

TEST(OrderDefect, AcceptsPermutations) {
  EXPECT_EQ(order_defect(Numbers{0}, 1), "");
  EXPECT_EQ(order_defect(Numbers{2, 0, 1}, 3), "");
}

TEST(OrderDefect, NamesTheWrongElement) {
  EXPECT_THAT(order_defect(Numbers{0, 1, 1}, 3), HasSubstr("element 1 twice"));
  EXPECT_THAT(order_defect(Numbers{0, 3, 1}, 3), HasSubstr("element 3 of a set of 3"));
  EXPECT_THAT(order_defect(Numbers{0, -1, 1}, 3), HasSubstr("element -1"));
  EXPECT_THAT(order_defect(Numbers{0, 1}, 3), HasSubstr("2 entries for 3 elements"));
  EXPECT_THAT(order_defect(Numbers{0, 1, 2, 3}, 3), HasSubstr("4 entries for 3 elements"));
}

TEST(TargetDefect, AClassMustBeInRange) {
  EXPECT_EQ(defect(of_classes(3), Numbers{0}), "");
  EXPECT_EQ(defect(of_classes(3), Numbers{2}), "");
  EXPECT_EQ(defect(of_classes(3), Numbers{3}), "class 3 is not between 0 and 2");
  EXPECT_EQ(defect(of_classes(3), Numbers{-100}),
            "class -100 is not between 0 and 2, and no target is ignored, as it is by PyTorch's "
            "ignore_index");
  EXPECT_THAT(defect(of_classes(3), Numbers{-1}), HasSubstr("class -1")) << "an unlabeled sample";
  EXPECT_THAT(defect(of_classes(3), Numbers{0, 2, 9}), HasSubstr("class 9"))
      << "a sample with several classes";
  EXPECT_EQ(defect(SampleSpec(), Numbers{7, -7}), "") << "numbers that are not classes";
}

TEST(TargetDefect, AClassOfTheFileIsInTheRangeOfItsOwnNumbers) {
  SampleSpec spec = of_classes(10);
  spec.class_numbers = {7, 2};
  EXPECT_EQ(defect(spec, Numbers{1}), "");
  EXPECT_THAT(defect(spec, Numbers{2}), HasSubstr("class 2 is not between 0 and 1"));
}

TEST(TargetDefect, AnOrderMustNameEachRowOnce) {
  EXPECT_EQ(defect(of_orders(), Numbers{1, 0}, 2), "");
  EXPECT_THAT(defect(of_orders(), Numbers{1, 0}, 3), HasSubstr("2 entries for 3"));
  EXPECT_THAT(defect(of_orders(), Numbers{1, 1}, 2), HasSubstr("element 1 twice"));
  EXPECT_THAT(defect(of_orders(), Numbers{-1, -1}, 2), HasSubstr("element -1"));
}

TEST(TargetDefect, NumbersMustBeFiniteAndWithinTheLimit) {
  SampleSpec spec;
  spec.target_limit = 2;
  spec.target_names = {"yaw", "pitch"};
  EXPECT_EQ(defect(spec, Floats{-2, 0, 2}), "");
  EXPECT_EQ(defect(spec, Floats{0, NAN}), "pitch is nan");
  EXPECT_EQ(defect(spec, Floats{-INFINITY}), "yaw is -inf");
  EXPECT_EQ(defect(spec, Floats{0, 0, -2.5f}), "target 2 is -2.5, beyond ±2");
  EXPECT_EQ(defect(SampleSpec(), Floats{std::numeric_limits<float>::max()}), "");
  EXPECT_EQ(defect(SampleSpec(), Floats{INFINITY}), "target 0 is inf");
}

TEST(CheckSamples, NamesTheFirstSampleWithABadTarget) {
  const testing::TempDir folder;
  const auto writer = Writer::create(folder / "d.h5", testing::small_schema(4));
  for (int64_t id = 0; id < 4; ++id) {
    const float last = id >= 2 ? NAN : 180;
    writer->write(id, testing::input_of(id), testing::bytes_of<float>({-180, 0, last}));
  }
  writer->finish(testing::extras_of(4));
  SampleSpec spec;
  spec.target_limit = 180;
  expect_error<DataError>([&] { check_samples(*open_file(folder / "d.h5"), spec); },
                          {"d.h5#2: target 2 is nan", "data.on_bad_sample: skip"});
  testing::write_data_set(folder / "good.h5", 4, testing::extras_of(4));
  EXPECT_NO_THROW(check_samples(*open_file(folder / "good.h5"), spec));
}

TEST(CheckSamples, NamesTheFirstSampleWithNoRowsOrTooMany) {
  const testing::TempDir folder;
  const auto store_of = [&](int64_t third) {
    const std::vector<int64_t> rows{2, 4, third};
    const auto writer = Writer::create(folder / "d.h5", testing::row_schema(false, 3), rows);
    for (const int64_t id : {0, 1, 2}) {
      const int64_t target = 0;
      const std::vector<float> values(static_cast<size_t>(rows[static_cast<size_t>(id)] * 3));
      writer->write(id, testing::bytes_of(values), std::as_bytes(std::span(&target, 1)));
    }
    writer->finish(testing::extras_of(3));
    return open_file(folder / "d.h5");
  };
  SampleSpec spec = of_classes(1);
  spec.kind = SampleSpec::Kind::kRows;
  spec.longest = 4;
  EXPECT_NO_THROW(check_samples(*store_of(4), spec));
  expect_error<DataError>([&] { check_samples(*store_of(0), spec); }, {"d.h5#2: has no rows"});
  expect_error<DataError>([&] { check_samples(*store_of(5), spec); },
                          {"d.h5#2: has 5 rows; the network takes up to 4"});
}

TEST(Finite, FindsTheFirstBadValueAtAnyPlace) {
  const float bad[] = {
      std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN(),
      std::numeric_limits<float>::signaling_NaN(), std::numeric_limits<float>::infinity(),
      -std::numeric_limits<float>::infinity()};
  for (size_t size : {0, 1, 3, 8, 31, 100}) {
    std::vector<float> values(size, std::numeric_limits<float>::max());
    for (size_t i = 0; i < size; i += 2)
      values[i] = i % 4 ? -std::numeric_limits<float>::denorm_min() : -0.0f;
    EXPECT_TRUE(all_finite(values));
    EXPECT_EQ(first_not_finite(values), -1);
    for (size_t at = 0; at < size; ++at) {
      std::vector<float> changed = values;
      changed[at] = bad[at % 5];
      changed[size - 1] = bad[0];
      EXPECT_FALSE(all_finite(changed));
      EXPECT_EQ(first_not_finite(changed), static_cast<int64_t>(at));
    }
  }
}

}  // namespace
}  // namespace dtrain::data
