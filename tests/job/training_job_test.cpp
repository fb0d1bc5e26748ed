// The order of start-up, which the types of its stages enforce.

#include <gtest/gtest.h>

#include <type_traits>
#include <utility>

#include "job/training_job.h"

namespace dtrain::job {
namespace {

template <typename Stage>
concept OpensData = requires(Stage run) {
  std::move(run).open_data();
};
template <typename Stage>
concept MakesTask = requires(Stage run) {
  std::move(run).make_task();
};
template <typename Stage>
concept IsPlaced = requires(Stage run) {
  std::move(run).place_on_device();
};
template <typename Stage>
concept IsChecked = requires(Stage run) {
  std::move(run).check_training();
};
template <typename Stage>
concept Connects = requires(Stage run) {
  std::move(run).connect();
};
template <typename Stage>
concept ClaimsName = requires(Stage run) {
  std::move(run).claim_name();
};
template <typename Stage>
concept Announces = requires(Stage run) {
  std::move(run).announce();
};
template <typename Stage>
concept Trains = requires(Stage run) {
  std::move(run).train();
};
template <typename Stage>
concept Concludes = requires(Stage run) {
  std::move(run).conclude();
};

// A letter for each verb that the stage has.
template <typename Stage>
std::string verbs_of() {
  std::string verbs;
  const auto add = [&](bool has, char letter) {
    if (has) verbs += letter;
  };
  add(OpensData<Stage>, 'o');
  add(MakesTask<Stage>, 'm');
  add(IsPlaced<Stage>, 'p');
  add(IsChecked<Stage>, 'k');
  add(Connects<Stage>, 'c');
  add(ClaimsName<Stage>, 'n');
  add(Announces<Stage>, 'a');
  add(Trains<Stage>, 't');
  add(Concludes<Stage>, 'e');
  return verbs;
}

TEST(Stages, HaveTheVerbThatFollowsAndNoOther) {
  EXPECT_EQ(verbs_of<PlannedRun>(), "o");
  EXPECT_EQ(verbs_of<OpenedRun>(), "m");
  EXPECT_EQ(verbs_of<PreparedRun>(), "p");
  EXPECT_EQ(verbs_of<PlacedRun>(), "kc");
  EXPECT_EQ(verbs_of<ConnectedRun>(), "n");
  EXPECT_EQ(verbs_of<NamedRun>(), "a");
  EXPECT_EQ(verbs_of<AnnouncedRun>(), "t");
  EXPECT_EQ(verbs_of<FinishedRun>(), "e");
}

template <typename Stage>
concept IsConsumed = !requires(Stage & run) {
  run.connect();
};

TEST(Stages, AreConsumedByTheirVerbs) {
  EXPECT_TRUE(IsConsumed<PlacedRun>) << "only an rvalue has the verb";
  EXPECT_FALSE(std::is_copy_constructible_v<PlannedRun>) << "it may hold the lock of a folder";
  EXPECT_FALSE(std::is_copy_constructible_v<ConnectedRun>);
}

TEST(Stages, AreEachStageBeforeThem) {
  EXPECT_TRUE((std::is_convertible_v<const ConnectedRun&, const PreparedRun&>));
  EXPECT_FALSE((std::is_convertible_v<const PreparedRun&, const ConnectedRun&>));
}

}  // namespace
}  // namespace dtrain::job
