#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <span>

#include "data/hdf5/data_set.h"
#include "data/hdf5/file_store.h"
#include "data/order/splits.h"
#include "support/temp_dir.h"

namespace dtrain::data {
namespace {

using testing::extras_of;
using testing::TempDir;
using testing::write_data_set;

std::unique_ptr<Store> store_with(const TempDir& folder, int64_t samples,
                                  const Writer::Extras& extras) {
  write_data_set(folder / "d.h5", samples, extras);
  return open_file(folder / "d.h5");
}

std::vector<int64_t> groups_of(const Store& store, const std::vector<int64_t>& ids) {
  std::set<int64_t> groups;
  for (const int64_t id : ids) groups.insert(store.origin().group(id));
  return {groups.begin(), groups.end()};
}

TEST(Splits, TheFilesSplitsAreUsed) {
  const TempDir folder;
  Writer::Extras extras = extras_of(6);
  extras.splits = {{"train", {5, 1}}, {"val", {0}}, {"test", {2, 3}}};
  const Splits s = splits(*store_with(folder, 6, extras), 0.5, 1);
  EXPECT_EQ(s.train, (std::vector<int64_t>{5, 1}));
  EXPECT_EQ(s.val, std::vector<int64_t>{0});
  EXPECT_EQ(s.test, (std::vector<int64_t>{2, 3}));
}

TEST(Splits, TheTrainingSplitDefaultsToTheRest) {
  const TempDir folder;
  Writer::Extras extras = extras_of(6);
  extras.splits = {{"test", {2, 3}}};
  EXPECT_EQ(splits(*store_with(folder, 6, extras), 0, 1).train, (std::vector<int64_t>{0, 1, 4, 5}));
}

TEST(Splits, WholeGroupsAreHeldOut) {
  const TempDir folder;
  Writer::Extras extras = extras_of(60, 3);
  extras.splits["test"] = {0, 1, 2};
  const std::unique_ptr<Store> store = store_with(folder, 60, extras);
  std::set<std::vector<int64_t>> choices;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Splits s = splits(*store, 0.2, seed);
    const std::vector<int64_t> train = groups_of(*store, s.train), val = groups_of(*store, s.val);
    std::vector<int64_t> both;
    std::set_intersection(train.begin(), train.end(), val.begin(), val.end(),
                          std::back_inserter(both));
    EXPECT_TRUE(both.empty());
    EXPECT_EQ(val.size(), 4u);  // round(0.2 x 19)
    EXPECT_EQ(s.train.size() + s.val.size(), 57u);
    EXPECT_TRUE(std::is_sorted(s.train.begin(), s.train.end()) &&
                std::is_sorted(s.val.begin(), s.val.end()));
    EXPECT_EQ(s.val, splits(*store, 0.2, seed).val);
    choices.insert(val);
  }
  EXPECT_GT(choices.size(), 15u) << "the seed must matter";
}

TEST(Splits, HoldsOutAtLeastOneGroupAndNotAll) {
  const TempDir folder;
  const std::unique_ptr<Store> store = store_with(folder, 6, extras_of(6));
  EXPECT_EQ(splits(*store, 0.001, 1).val.size(), 2u);
  EXPECT_EQ(splits(*store, 0.999, 1).train.size(), 2u);
  EXPECT_TRUE(splits(*store, 0, 1).val.empty());
}

TEST(Splits, AShareOfTheTrainingGroupsIsKept) {
  const TempDir folder;
  Writer::Extras extras = extras_of(300, 3);
  extras.splits["test"] = {0, 1, 2};
  const std::unique_ptr<Store> store = store_with(folder, 300, extras);
  const Splits all = splits(*store, 0.2, 7);
  std::set<std::vector<int64_t>> choices;
  for (uint64_t seed = 0; seed < 20; ++seed)
    choices.insert(groups_of(*store, splits(*store, 0.2, seed, 0.1).train));
  EXPECT_GT(choices.size(), 15u) << "the seed must matter";

  std::vector<int64_t> smaller;
  for (const double share : {0.001, 0.1, 0.5, 1.0}) {
    const Splits some = splits(*store, 0.2, 7, share);
    EXPECT_EQ(some.val, all.val);
    EXPECT_EQ(some.test, all.test);
    const std::vector<int64_t> groups = groups_of(*store, some.train);
    const std::vector<int64_t> every = groups_of(*store, all.train);
    ASSERT_EQ(every.size(), 79u);
    EXPECT_EQ(groups.size(), share == 0.001 ? 1u : share == 0.1 ? 8u : share == 0.5 ? 40u : 79u);
    EXPECT_EQ(some.train.size(), 3 * groups.size()) << "whole groups";
    EXPECT_TRUE(std::is_sorted(some.train.begin(), some.train.end()));
    EXPECT_TRUE(std::includes(every.begin(), every.end(), groups.begin(), groups.end()));
    EXPECT_TRUE(std::includes(groups.begin(), groups.end(), smaller.begin(), smaller.end()));
    smaller = groups;
  }
}

TEST(Splits, AShareOfTheFilesTrainingSplitKeepsItsOrder) {
  const TempDir folder;
  Writer::Extras extras = extras_of(8);
  extras.splits = {{"train", {5, 1, 4, 2}}, {"val", {0}}, {"test", {3}}};
  const std::unique_ptr<Store> store = store_with(folder, 8, extras);
  const std::vector<int64_t> file = splits(*store, 0.1, 1).train;
  const Splits half = splits(*store, 0.1, 1, 0.5);
  ASSERT_EQ(half.train.size(), 2u);
  EXPECT_LT(std::find(file.begin(), file.end(), half.train[0]),
            std::find(file.begin(), file.end(), half.train[1]));
  EXPECT_EQ(half.val, std::vector<int64_t>{0});
  EXPECT_EQ(half.test, std::vector<int64_t>{3});
}

TEST(Splits, TheChecksumDependsOnSplitAndOrder) {
  const Splits s{.train = {0, 1, 2}, .val = {3}, .test = {4, 5}};
  EXPECT_EQ(checksum(s), checksum(Splits{{0, 1, 2}, {3}, {4, 5}}));
  EXPECT_NE(checksum(s), checksum(Splits{{0, 2, 1}, {3}, {4, 5}}));
  EXPECT_NE(checksum(s), checksum(Splits{{0, 1}, {2, 3}, {4, 5}}));
  EXPECT_NE(checksum(s), checksum(Splits{{0, 1, 2}, {3, 4}, {5}}));
  EXPECT_NE(checksum(s), checksum(Splits{{0, 1, 2, 3}, {}, {4, 5}}));
  EXPECT_NE(checksum(s), checksum(Splits{{0, 1, 2}, {4, 5}, {3}}));
}

TEST(Splits, ASingleGroupIsNotDivided) {
  const TempDir folder;
  const Splits s = splits(*store_with(folder, 6, extras_of(6, 6)), 0.5, 1);
  EXPECT_EQ(s.train.size(), 6u);
  EXPECT_TRUE(s.val.empty());
}

// A file of classes a, b, ...: one sample of each label, in a group of its own or as `groups` says.
std::unique_ptr<Store> classes_store(const TempDir& folder, const std::vector<int64_t>& labels,
                                     const std::vector<int64_t>& groups = {},
                                     const std::string& class_names = "a\nb\nc") {
  const auto samples = static_cast<int64_t>(labels.size());
  Writer::Extras extras = extras_of(samples, 1);
  if (!groups.empty()) extras.group = groups;
  if (!class_names.empty()) extras.attributes["class_names"] = class_names;
  const Schema schema{"classify", {Element::kUint8, {5, 4, 3}}, {Element::kInt64, {}}, samples, 0};
  const std::unique_ptr<Writer> writer = Writer::create(folder / "d.h5", schema);
  for (int64_t id = 0; id < samples; ++id) {
    writer->write(id, testing::input_of(id),
                  std::as_bytes(std::span(&labels[static_cast<size_t>(id)], 1)));
  }
  writer->finish(extras);
  return open_file(folder / "d.h5");
}

std::set<int64_t> labels_of(const Store& store, const std::vector<int64_t>& ids) {
  std::set<int64_t> labels;
  for (const int64_t id : ids) labels.insert(read_target_as<int64_t>(store, id).front());
  return labels;
}

TEST(Splits, EachClassKeepsATrainingSample) {
  const TempDir folder;
  std::vector<int64_t> labels(40, 0);
  labels[11] = 1;
  labels[20] = labels[30] = 2;
  const std::set<int64_t> all{0, 1, 2};
  bool was_lost = false;  // for some seed, by the choice of groups alone
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::unique_ptr<Store> store =
        classes_store(folder, labels, {}, seed % 2 == 0 ? "a\nb\nc" : "");
    const Splits s = splits(*store, 0.5, seed);
    EXPECT_EQ(labels_of(*store, s.train), all);
    EXPECT_EQ(s.train.size() + s.val.size(), 40u);
    EXPECT_TRUE(std::is_sorted(s.train.begin(), s.train.end()));
    EXPECT_LE(s.val.size(), 20u);
    EXPECT_GE(s.val.size(), 18u) << "one group at most comes back for each rare class";
    EXPECT_TRUE(s.untrained_classes.empty());
    was_lost = was_lost || s.val.size() < 20;

    const Splits tenth = splits(*store, 0.5, seed, 0.1), half = splits(*store, 0.5, seed, 0.5);
    EXPECT_EQ(labels_of(*store, tenth.train), all);
    EXPECT_LE(tenth.train.size(), 4u);
    EXPECT_TRUE(std::includes(half.train.begin(), half.train.end(), tenth.train.begin(),
                              tenth.train.end()));
    EXPECT_EQ(tenth.val, s.val);
  }
  EXPECT_TRUE(was_lost);
}

TEST(Splits, AGroupOfAnotherClassIsHeldOutInPlaceOfTheLastOfARareOne) {
  const TempDir folder;
  std::vector<int64_t> labels(10, 0);
  labels[3] = 1;
  labels[7] = 2;
  const std::unique_ptr<Store> store = classes_store(folder, labels);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const Splits s = splits(*store, 0.1, seed);
    EXPECT_EQ(s.val.size(), 1u);
    EXPECT_EQ(labels_of(*store, s.val), std::set<int64_t>{0});
    EXPECT_TRUE(s.untrained_classes.empty());
  }
}

TEST(Splits, NamesAClassThatCannotKeepATrainingSample) {
  const TempDir folder;
  // One group must be held out
  const std::unique_ptr<Store> store = classes_store(folder, {0, 0, 1, 1}, {0, 0, 1, 1});
  const Splits s = splits(*store, 0.5, 1);
  EXPECT_EQ(s.val.size(), 2u);
  ASSERT_EQ(s.untrained_classes.size(), 1u);
  EXPECT_EQ(s.untrained_classes.front(), s.val.front() / 2);
}

}  // namespace
}  // namespace dtrain::data
