#include "convert/split_folders.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "support/expect_error.h"
#include "text/strings.h"

namespace dtrain::convert {
namespace {

using testing::expect_error;

TopFolder divided(const std::string& name) { return {.name = name, .has_folders = true}; }
TopFolder flat(const std::string& name) { return {.name = name, .has_samples = true}; }

std::string text(const FolderRoles& roles) {
  std::string result;
  for (const auto& [folder, split] : roles.splits) result += str(folder, "=", split, " ");
  for (const std::string& name : roles.classes) result += str(name, " ");
  for (const std::string& name : roles.unlabeled) result += str("?", name, " ");
  for (const std::string& name : roles.left_out) result += str("-", name, " ");
  return result;
}

std::string read(const std::vector<TopFolder>& folders, std::optional<bool> splits = std::nullopt) {
  return text(roles_of_folders("d", folders, splits));
}

void refused(const std::vector<TopFolder>& folders, const std::vector<std::string>& parts) {
  expect_error<DataError>([&] { read(folders); }, parts);
}

TEST(SplitNamed, KnowsTheWordsInAnyCaseAndWithWhatTheFolderHolds) {
  for (const char* name : {"train", "Train", "TRAIN", "training", "Training", "train_images",
                           "Training-Set", "trainset", "data_train", "images train"}) {
    EXPECT_EQ(split_named(name), "train") << name;
  }
  for (const char* name :
       {"val", "Valid", "VALIDATION", "dev", "Eval", "valid_images", "val-data"}) {
    EXPECT_EQ(split_named(name), "val") << name;
  }
  for (const char* name : {"test", "Test", "Testing", "test_images", "test_set", "testset", "test1",
                           "test_2017", "images2017-test"}) {
    EXPECT_EQ(split_named(name), "test") << name;
  }
  for (const char* name :
       {"", "cat", "trains", "trainer", "invalid", "device", "evaluation2", "latest", "2017",
        "t3st", "contest", "bullet_train", "test_tube", "images", "set", "tést"}) {
    EXPECT_EQ(split_named(name), "") << name;
  }
}

TEST(SplitWithin, FindsAWordAmongOthers) {
  EXPECT_EQ(split_within("seg_train"), "train");
  EXPECT_EQ(split_within("asl-alphabet.Test"), "test");
  EXPECT_EQ(split_within("Valid"), "val");
  EXPECT_EQ(split_within("contest"), "");
  EXPECT_EQ(split_within("latest_version"), "");
}

TEST(RolesOfFolders, AllNamedForSplitsAreSplits) {
  EXPECT_EQ(read({divided("Test"), divided("Training")}), "Test=test Training=train ");
  EXPECT_EQ(read({divided("dev"), divided("eval"), divided("train")}),
            "dev=val eval=val train=train ");
  EXPECT_EQ(read({divided("train_images")}), "train_images=train ");
  EXPECT_EQ(
      read({{.name = "training_set", .path = "training_set/training_set", .has_folders = true}}),
      "training_set/training_set=train ");
  EXPECT_EQ(read({divided("train"), {.name = "val"}}), "train=train val=val ");  // an empty one
}

TEST(RolesOfFolders, OthersAreClasses) {
  EXPECT_EQ(read({flat("cat"), flat("dog")}), "cat dog ");
  EXPECT_EQ(read({divided("bullet_train"), divided("mail")}), "bullet_train mail ");
  EXPECT_EQ(read({flat("seg_train"), flat("seg_test")}), "seg_train seg_test ");
  expect_error<DataError>(
      [] {
        read({flat("cat"), flat("dog")}, true);
      },
      {"--splits-from-folders yes, but no folder in d is named for a split", "cat, dog"});
}

TEST(RolesOfFolders, NumberedNamesAreSplitsWhereTheyHoldClassFolders) {
  EXPECT_EQ(read({divided("train2017"), divided("val2017")}), "train2017=train val2017=val ");
  EXPECT_EQ(read({flat("test1"), divided("train")}), "train=train ?test1 ");
  refused({flat("test1"), flat("train")}, {"d contains test1, train. Are these classes or splits?",
                                           "test1 is the split test", "the classes are test1"});
  refused({flat("test1"), flat("test2")}, {"Are these classes or splits?"});
  EXPECT_EQ(read({flat("test1"), flat("test2")}, false), "test1 test2 ");
}

TEST(RolesOfFolders, AMixtureIsAnErrorWithBothReadings) {
  const std::vector<TopFolder> fruits{divided("Test"), divided("Training"), divided("papers"),
                                      flat("test-multiple")};
  refused(fruits,
          {"d contains papers, test-multiple next to Test, Training. Are these classes or splits?",
           "\n  --splits-from-folders yes: Test is the split test; Training is the split train; "
           "left out: papers, test-multiple",
           "\n  --splits-from-folders no: the classes are Test, Training, papers, test-multiple"});
  EXPECT_EQ(read(fruits, true), "Test=test Training=train -papers -test-multiple ");
  EXPECT_EQ(read(fruits, false), "Test Training papers test-multiple ");
}

// A folder of samples beside classes: a class, or samples without labels.
TEST(RolesOfFolders, AFolderOfSamplesThatIsNamedTestIsAClassOnlyOnDemand) {
  for (const char* name : {"test", "val", "Validation"}) {
    const std::vector<TopFolder> folders{flat("cat"), flat("dog"), flat(name)};
    refused(folders, {str("contains cat, dog next to ", name),
                      str("yes: the classes are cat, dog; left out, without labels: ", name),
                      str("no: the classes are cat, dog, ", name)});
    EXPECT_EQ(read(folders, true), str("cat dog ?", name, " "));
    EXPECT_EQ(read(folders, false), str("cat dog ", name, " "));
  }
  // The split for training without classes makes no sense beside classes: it is a vehicle.
  EXPECT_EQ(read({flat("bus"), flat("car"), flat("train")}), "bus car train ");
  refused({flat("bus"), flat("test"), flat("train")},
          {"yes: the classes are bus, train; left out, without labels: test"});
}

TEST(RolesOfFolders, ATestFolderOfSamplesBesideSplitsHasNoLabels) {
  EXPECT_EQ(read({flat("test"), divided("train")}), "train=train ?test ");
  EXPECT_EQ(read({flat("Testing"), divided("train"), divided("valid")}),
            "train=train valid=val ?Testing ");
  // With class folders in it, its other files are an error of the listing; so are samples in
  // other splits.
  EXPECT_EQ(read({{.name = "test", .has_folders = true, .has_samples = true}, divided("train")}),
            "test=test train=train ");
  EXPECT_EQ(read({flat("val"), divided("train")}), "val=val train=train ");
  EXPECT_EQ(read({flat("test"), flat("train")}), "test=test train=train ");
}

TEST(RolesOfFolders, NamesWithAWordForASplitAreAQuestion) {
  const std::vector<TopFolder> scenes{flat("seg_pred"), divided("seg_test"), divided("seg_train")};
  refused(scenes,
          {"contains seg_pred next to seg_test, seg_train", "seg_train is the split train"});
  EXPECT_EQ(read(scenes, true), "seg_test=test seg_train=train -seg_pred ");
  refused({divided("asl_test"), divided("asl_train")},
          {"d contains asl_test, asl_train. Are these classes or splits?"});
  EXPECT_EQ(read({divided("asl_test"), divided("asl_train")}, false), "asl_test asl_train ");
}

TEST(RolesOfFolders, AnErrorNamesOnlyTheFirstFolders) {
  std::vector<TopFolder> folders{divided("train")};
  for (int i = 0; i < 20; ++i) folders.push_back(divided(str("c", i)));
  refused(folders, {"c0, c1, c2, c3, c4, c5 and 14 more next to train"});
}

}  // namespace
}  // namespace dtrain::convert
