#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <set>

#include "convert/assign_splits.h"
#include "convert/head_pose_set.h"
#include "core/error.h"
#include "formats/mat_file.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "text/strings.h"

namespace dtrain::convert {
namespace {

class Fixed : public HeadPoseSet {
 public:
  explicit Fixed(const std::vector<RawSample>& samples)
      : HeadPoseSet(catalog::row(catalog::task_named("headpose")), 8) {
    for (const RawSample& sample : samples) samples_.push_back(sample);
  }
  LabeledImage read_picture(const RawSample&, int) const override {
    throw DataError("not to be read");
  }
};

Fixed photos(int groups, int views) {
  std::vector<RawSample> samples;
  for (int g = 0; g < groups; ++g) {
    for (int v = 0; v < views; ++v)
      samples.push_back({str("AFW/p", g, "_", v, ".jpg"), str("AFW/p", g)});
  }
  return Fixed(samples);
}

TEST(ChooseGroups, ChoosesTheShareAndLeavesSomeOnBothSides) {
  const auto name = [](uint32_t group) { return str("g", group); };
  const auto choose = [&](std::vector<uint32_t> groups, double share, uint64_t seed) {
    return choose_groups(groups, name, share, seed);
  };
  std::vector<uint32_t> groups(100);
  std::iota(groups.begin(), groups.end(), 0);
  EXPECT_EQ(choose(groups, 0.1, 1), (std::vector<uint32_t>{5, 14, 30, 43, 55, 57, 81, 85, 88, 90}));
  EXPECT_EQ(choose(groups, 0, 1).size(), 0u);
  EXPECT_EQ(choose({0, 1}, 0.01, 1).size(), 1u);
  EXPECT_EQ(choose({0, 1}, 0.99, 1).size(), 1u);
  EXPECT_EQ(choose({0}, 0.1, 1).size(), 0u);
  EXPECT_NE(choose(groups, 0.1, 1), choose(groups, 0.1, 2));
  const auto chosen = choose(groups, 0.1, 1);
  std::reverse(groups.begin(), groups.end());
  EXPECT_EQ(choose(groups, 0.1, 1), chosen);
  const auto same = [](uint32_t group) { return str("same", group / 200); };  // equal keys
  EXPECT_EQ(choose_groups(groups, same, 0.1, 1).size(), 10u);
}

TEST(AssignSplits, NoPhotoIsInTwoSplits) {
  const Fixed set = photos(50, 7);
  SplitOptions options;
  options.test_share = 0.2;
  const auto splits = assign_splits(set, options);
  EXPECT_EQ(std::count(splits.begin(), splits.end(), Split::kTest), 10 * 7);
  EXPECT_EQ(std::count(splits.begin(), splits.end(), Split::kTrain), 40 * 7);
  EXPECT_EQ(straddling_groups(set.samples(), splits).groups, 0);
}

TEST(AssignSplits, UsesAndChecksLists) {
  const testing::TempDir folder;
  const Fixed set = photos(3, 2);
  std::ofstream(folder / "train") << "AFW/p0_0\n\n  AFW/p1_0.jpg \r\n";
  std::ofstream(folder / "test") << "AFW/p1_1\n";
  SplitOptions options;
  options.train_list = folder / "train";
  options.test_list = folder / "test";
  const auto splits = assign_splits(set, options);
  EXPECT_EQ(splits, (std::vector{Split::kTrain, Split::kNone, Split::kTrain, Split::kTest,
                                 Split::kNone, Split::kNone}));
  const Straddling straddling = straddling_groups(set.samples(), splits);
  EXPECT_EQ(straddling.groups, 1);
  EXPECT_EQ(straddling.first, "AFW/p1");

  std::ofstream(folder / "test") << "AFW/p0_1\nAFW/p0_0\n";
  testing::expect_error<DataError>([&] { assign_splits(set, options); },
                                   {"test:2", "AFW/p0_0", "train list"});
  std::ofstream(folder / "test") << "AFW/nobody\n";
  testing::expect_error<DataError>([&] { assign_splits(set, options); },
                                   {"test:1", "no sample is called AFW/nobody"});
  options.test_list = folder / "absent";
  testing::expect_error<DataError>([&] { assign_splits(set, options); }, {"cannot read the list"});
}

TEST(AssignSplits, FindsNamesInAnotherUnicodeForm) {
  const testing::TempDir folder;
  const std::string composed = "caf\xc3\xa9", decomposed = "cafe\xcc\x81";
  SplitOptions options;
  options.train_list = folder / "train";
  std::ofstream(folder / "train") << composed << "/0.png\n"
                                  << composed << "/1\n"
                                  << decomposed << "/2.png\n";
  const Fixed set(
      {{decomposed + "/0.png", "0"}, {decomposed + "/1.png", "1"}, {composed + "/2.png", "2"}});
  EXPECT_EQ(assign_splits(set, options),
            (std::vector{Split::kTrain, Split::kTrain, Split::kTrain}));
  // With both forms in one set, the bytes decide.
  std::ofstream(folder / "train") << composed << "/0\n" << composed << "/0.png\n";
  const Fixed both({{decomposed + "/0.png", "0"}, {composed + "/0.png", "1"}});
  EXPECT_EQ(assign_splits(both, options), (std::vector{Split::kNone, Split::kTrain}));
}

// The list of Caffe: a name and the number of its class.
TEST(AssignSplits, TakesNumbersAfterNamesOnlyWhereTheyAreTheClassesOfTheFolders) {
  const testing::TempDir folder;
  const Fixed set(
      {{"a/0.png", "a0", 0}, {"a/1.png", "a1", 0}, {"b/0.png", "b0", 1}, {"b/1.png", "b1", 1}});
  SplitOptions options;
  options.train_list = folder / "train";
  options.val_list = folder / "val";
  std::ofstream(folder / "train") << "photos/a/0.png 5\nphotos/b/0.png 2\n";
  std::ofstream(folder / "val") << "a/1.png 5\n";
  EXPECT_EQ(assign_splits(set, options),
            (std::vector{Split::kTrain, Split::kVal, Split::kTrain, Split::kNone}));

  std::ofstream(folder / "val") << "a/1.png 2\n";  // in another list
  testing::expect_error<DataError>(
      [&] { assign_splits(set, options); },
      {"val:1: 'a/1.png 2' contradicts 'photos/a/0.png 5'", "train:1", "one class"});
  options.val_list.clear();
  std::ofstream(folder / "train") << "AFW/p0_0.jpg 0\n";
  testing::expect_error<DataError>([&] { assign_splits(photos(1, 1), options); },
                                   {"train:1", "no classes"});
}

TEST(AssignSplits, AClassKeepsAGroupForTraining) {
  std::vector<RawSample> samples;
  for (int i = 0; i < 8; ++i)
    samples.push_back({.name = str("a", i), .group = str("a", i), .label = 0});
  samples.push_back({.name = "b", .group = "b", .label = 1});
  samples.push_back({.name = "c", .group = "c0", .label = 2});
  samples.push_back({.name = "d", .group = "c1", .label = 2});
  SplitOptions options;
  options.test_share = 0.3;
  // Of what the test leaves: 86 %, which takes the last group of a small class
  options.val_share = 0.6;
  const auto splits = assign_splits(Fixed(samples), options);
  EXPECT_EQ(splits[8], Split::kTrain) << "the only group of its class";
  EXPECT_EQ(std::count(splits.begin() + 9, splits.end(), Split::kTest), 1);
  EXPECT_EQ(std::count(splits.begin() + 9, splits.end(), Split::kTrain), 1);
  EXPECT_EQ(std::count(splits.begin(), splits.begin() + 8, Split::kTest), 2);
  EXPECT_EQ(std::count(splits.begin(), splits.begin() + 8, Split::kVal), 5);
}

TEST(LandmarkBox, ExtendsHopenetsRectangleToASquare) {
  // 100 wide, 50 high: 12 wider on each side; 20 above, 6 below; the square of 124 about
  // (150, 218).
  const formats::Matrix points{.rows = 2, .columns = 3, .values = {100, 200, 200, 250, -1, -1}};
  const formats::Box box = landmark_box(points, 300, 300);
  EXPECT_NEAR(box.left, 88, 1e-9);
  EXPECT_NEAR(box.right, 212, 1e-9);
  EXPECT_NEAR(box.top, 218 - 62, 1e-9);
  EXPECT_NEAR(box.bottom, 218 + 62, 1e-9);
  const auto refused = [](std::vector<double> values, size_t rows, const char* part) {
    const formats::Matrix bad{.rows = rows, .columns = values.size() / rows, .values = values};
    testing::expect_error<DataError>([&] { landmark_box(bad, 300, 200); }, {part});
  };
  refused({1, 2, 3}, 1, "a matrix of 1 x 3; 2 rows");
  refused(std::vector<double>(20, 9), 5, "a matrix of 5 x 4; 2 rows");
  refused({5, 5, 5, 5}, 2, "no face");
  refused({-1, -1, -1, -1}, 2, "all 2 landmarks are hidden");
  refused({5, 5, std::nan(""), 9}, 2, "NaN");
  refused({310, 50, 350, 90, -1, -1}, 2,
          "none of its 2 landmarks is in the picture of 300 x 200 pixels: x is 310 to 350, y is 50 "
          "to 90");
  refused({50, 210, 90, 250}, 2, "none of its 2 landmarks");
  refused({-50, 20, -9, 50}, 2, "none of its 2 landmarks");
}

TEST(LandmarkBox, AcceptsARowForEachLandmark) {
  const formats::Matrix columns{
      .rows = 2, .columns = 4, .values = {100, 200, 200, 250, -1, -1, 150, 220}};
  const formats::Matrix rows{
      .rows = 4, .columns = 2, .values = {100, 200, -1, 150, 200, 250, -1, 220}};
  const formats::Matrix with_depth{
      .rows = 4, .columns = 3, .values = {100, 200, -1, 150, 200, 250, -1, 220, 7, 7, 7, 7}};
  const formats::Box expected = landmark_box(columns, 300, 300);
  EXPECT_NEAR(expected.left, 88, 1e-9);
  for (const formats::Matrix& points : {rows, with_depth}) {
    const formats::Box box = landmark_box(points, 300, 300);
    EXPECT_EQ(box.left, expected.left);
    EXPECT_EQ(box.right, expected.right);
    EXPECT_EQ(box.top, expected.top);
    EXPECT_EQ(box.bottom, expected.bottom);
  }
}

TEST(BiwiPersons, FourPeopleWereRecordedTwice) {
  std::map<std::string, int> sequences;
  for (int s = 1; s <= 24; ++s) ++sequences[biwi_person(str(s < 10 ? "0" : "", s))];
  EXPECT_EQ(sequences.size(), 20u);
  EXPECT_EQ(std::count_if(sequences.begin(), sequences.end(),
                          [](const auto& s) { return s.second == 2; }),
            4);
  std::set<std::string> test, tested;
  for (const std::string& sequence : kBiwiTestSequences) test.insert(biwi_person(sequence));
  int in_test = 0;
  for (const std::string& person : test) in_test += sequences[person];
  EXPECT_EQ(in_test, 8);
  EXPECT_EQ(biwi_person("77"), "77");
}

}  // namespace
}  // namespace dtrain::convert
