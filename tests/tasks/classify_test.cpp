// Task classify: class weights, the loss against the mean of torch, metrics of counts made by hand,
// and errors.

#include <gmock/gmock.h>

#include "core/error.h"
#include "data/loader/sample_check.h"
#include "support/expect_error.h"
#include "support/memory_store.h"
#include "tasks/classify/class_weights.h"
#include "tasks/task.h"

namespace dtrain::tasks {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

config::Config small() {
  config::Config config;
  config.task = catalog::task_named("classify");
  config.model.image_size = 32;
  config.model.dropout = 0;
  return config;
}

DataFacts facts(std::vector<std::string> classes, std::vector<int64_t> counts = {}) {
  DataFacts facts;
  facts.stored_size = 32;
  facts.classes = std::move(classes);
  facts.class_counts = std::move(counts);
  return facts;
}

const std::vector<std::string> kThree = {"cat", "dog", "eel"};

data::Batch batch_of(const std::vector<int64_t>& targets) {
  at::manual_seed(3);
  data::Batch batch;
  batch.inputs = at::randn({static_cast<int64_t>(targets.size()), 3, 32, 32});
  batch.targets = at::tensor(targets, at::kLong);
  for (size_t id = 0; id < targets.size(); ++id) batch.ids.push_back(static_cast<int64_t>(id));
  batch.global_samples = batch.samples();
  return batch;
}

template <typename Thrown, typename Body>
std::string message_of(const Body& body) {
  try {
    body();
  } catch (const Thrown& error) {
    return error.what();
  }
  return "no error";
}

TEST(ClassWeights, AreNoneBalancedOrAList) {
  EXPECT_THAT(class_weights("none", kThree, {}), ElementsAre(1, 1, 1));
  // 9 / (2 classes · count)
  EXPECT_THAT(class_weights("balanced", kThree, {6, 3, 0}), ElementsAre(0.75, 1.5, 0));
  EXPECT_THAT(class_weights("1,0.5,2", kThree, {}), ElementsAre(1, 0.5, 2));
  EXPECT_EQ(mean_weight({0.75, 1.5, 0}, {6, 3, 0}), 1);
  EXPECT_EQ(mean_weight({1, 0.5, 3}, {2, 4, 2}), 1.25);
  EXPECT_EQ(mean_weight({1, 0.5, 3}, {}), 1.5);
}

TEST(ClassWeights, RefusesOtherTextByName) {
  const auto refusal = [](const char* text) {
    return message_of<ConfigError>([&] { class_weights(text, kThree, {1, 1, 1}); });
  };
  EXPECT_THAT(refusal("1,2"),
              HasSubstr("train.class_weights: 2 numbers for 3 classes (cat, dog, eel)"));
  EXPECT_THAT(refusal("ballanced"), HasSubstr("'ballanced' is not a number"));
  EXPECT_THAT(refusal("1,-2,1"), HasSubstr("'-2' is not a number of at least 0"));
  EXPECT_THAT(refusal("1,nan,1"), HasSubstr("'nan' is not a number"));
  EXPECT_THAT(refusal("0,0,0"), HasSubstr("all are 0"));
}

TEST(Classify, TheLossDividedByItsWeightIsTorchsMean) {
  for (const double smoothing : {0.0, 0.1}) {
    for (const char* weights : {"none", "1,0.5,2", "balanced"}) {
      config::Config config = small();
      config.train.label_smoothing = smoothing;
      config.train.class_weights = weights;
      const auto task = make_task(config, facts(kThree, {10, 40, 50}));
      const data::Batch batch = batch_of({0, 2, 2, 1, 0});
      const Loss loss = task->loss(batch);
      task->model().eval();
      const std::vector<double> values = class_weights(weights, kThree, {10, 40, 50});
      // Its probabilities give the logits, up to a constant
      const std::vector<Row> rows = task->predict(batch);
      at::Tensor logits = at::empty({5, 3}, at::kDouble);
      for (int64_t i = 0; i < 5; ++i) {
        const auto& order = std::get<std::vector<std::string>>(rows[static_cast<size_t>(i)][2]);
        const auto& shares = std::get<std::vector<double>>(rows[static_cast<size_t>(i)][3]);
        for (size_t k = 0; k < 3; ++k) {
          const auto number = std::find(kThree.begin(), kThree.end(), order[k]) - kThree.begin();
          logits[i][number] = std::log(shares[k]);
        }
      }
      const at::Tensor mean =
          at::cross_entropy_loss(logits, batch.targets, at::tensor(values, at::kDouble),
                                 at::Reduction::Mean, -100, smoothing);
      EXPECT_NEAR((loss.sum() / loss.weight).item<double>(), mean.item<double>(), 1e-5)
          << weights << smoothing;
    }
  }
}

TEST(Classify, ThePlannedWeightIsWhatTheSamplesWillHave) {
  config::Config config = small();
  config.train.class_weights = "2,1,1";
  EXPECT_EQ(make_task(config, facts(kThree, {5, 3, 2}))->planned_weight(20), 30);
  config.train.class_weights = "balanced";
  EXPECT_EQ(make_task(config, facts(kThree, {5, 3, 2}))->planned_weight(20), 20);
}

// Rows: the true class. Class 2 is never predicted; class 3 occurs neither as a target nor as
// a prediction.
const at::Tensor kConfusion =
    at::tensor({3., 1., 0., 0., 0., 4., 0., 0., 1., 1., 0., 0., 0., 0., 0., 0.}).view({4, 4});

TEST(Classify, MetricsAreThoseOfTheConfusionMatrix) {
  const auto task = make_task(small(), facts({"a", "b", "c", "d"}));
  const at::Tensor ten = at::full({}, 10.0, at::kDouble);
  const Summary summary =
      task->summarise({{"samples", ten}, {"loss", ten * 2}, {"hits", kConfusion.to(at::kDouble)}});
  std::map<std::string, double> metrics(summary.metrics.begin(), summary.metrics.end());
  EXPECT_FALSE(metrics.contains("top5"));
  EXPECT_DOUBLE_EQ(metrics["loss"], 2);
  EXPECT_DOUBLE_EQ(metrics["top1"], 0.7);
  EXPECT_DOUBLE_EQ(metrics["precision"], (3 / 4. + 4 / 6. + 0) / 3);
  EXPECT_DOUBLE_EQ(metrics["recall"], (3 / 4. + 1 + 0) / 3);
  EXPECT_DOUBLE_EQ(metrics["f1"], (6 / 8. + 8 / 10. + 0) / 3);
  ASSERT_EQ(summary.tables.size(), 2u);
  EXPECT_EQ(summary.tables[0].rows, (std::vector<std::string>{"a", "b", "c", "d"}));
  EXPECT_THAT(summary.tables[0].cells[1], ElementsAre(4 / 6., 1, 0.8, 4));
  EXPECT_TRUE(std::isnan(summary.tables[0].cells[2][0]));  // never predicted
  EXPECT_THAT(summary.tables[1].cells[2], ElementsAre(1, 1, 0, 0));
}

TEST(Classify, CountsTheTopFiveOfSixClassesAndMore) {
  const auto task = make_task(small(), facts({"a", "b", "c", "d", "e", "f"}));
  task->model().eval();
  const data::Batch batch = batch_of({0, 1, 2, 3, 4, 5, 0, 1});
  const std::vector<Row> rows = task->predict(batch);
  double top1 = 0, top5 = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto& order = std::get<std::vector<std::string>>(rows[i][2]);
    ASSERT_EQ(order.size(), 5u);
    const std::string target(
        1, static_cast<char>('a' + batch.targets[static_cast<int64_t>(i)].item<int64_t>()));
    top1 += order[0] == target ? 1 : 0;
    top5 += std::find(order.begin(), order.end(), target) != order.end() ? 1 : 0;
    EXPECT_EQ(std::get<std::string>(rows[i][0]), order[0]);
    EXPECT_EQ(std::get<double>(rows[i][1]), std::get<std::vector<double>>(rows[i][3])[0]);
  }
  EXPECT_LT(top5, 8) << "choose another seed: nothing is left out of the five";
  const Summary summary = task->summarise(task->count(batch).sums);
  std::map<std::string, double> metrics(summary.metrics.begin(), summary.metrics.end());
  EXPECT_DOUBLE_EQ(metrics["top1"], top1 / 8);
  EXPECT_DOUBLE_EQ(metrics["top5"], top5 / 8);
}

TEST(Classify, EvaluatesTheCenterOfImagesThatAreStoredLarger) {
  DataFacts stored = facts(kThree);
  EXPECT_EQ(make_task(small(), stored)->samples().centre_share, 1);
  stored.stored_size = 40;
  EXPECT_EQ(make_task(small(), stored)->samples().centre_share, 0.875f);
  EXPECT_EQ(facts_of(make_task(small(), stored)->metadata()).stored_size, 40);
  EXPECT_EQ(facts_of(make_task(small(), stored)->metadata()).classes, kThree);
}

// ---- errors -------------------------------------------------------------------------------------

class ClassStore : public dtrain::testing::MemoryStore {
 public:
  explicit ClassStore(std::vector<int64_t> classes, std::string names = "cat\ndog\neel")
      : MemoryStore(static_cast<int64_t>(classes.size()), 32, 32),
        classes_(std::move(classes)),
        names_(std::move(names)) {
    schema_to_change().task = "classify";
    schema_to_change().target = {data::Element::kInt64, {}};
  }
  void read_target(int64_t id, std::span<std::byte> out) const override {
    std::memcpy(out.data(), &classes_[static_cast<size_t>(id)], out.size());
  }
  std::string attribute(const std::string& name) const override {
    return name == "class_names" ? names_ : "";
  }

 private:
  std::vector<int64_t> classes_;
  std::string names_;
};

std::string refusal(const data::Store& store) {
  return message_of<DataError>([&] {
    const auto task = make_task(small(), facts(kThree));
    task->check(store);
    data::check_samples(store, task->samples());
  });
}

TEST(Classify, AcceptsItsOwnData) { EXPECT_EQ(refusal(ClassStore({0, 1, 2, 2})), "no error"); }

TEST(Classify, AcceptsDataWithSomeOfItsClassesInAnyOrder) {
  const auto numbers = [](const std::string& names) {
    const auto task = make_task(small(), facts(kThree));
    const ClassStore store({0}, names);
    task->check(store);
    return task->samples().class_numbers;
  };
  EXPECT_EQ(numbers("cat\ndog\neel"), std::vector<int64_t>{});
  EXPECT_EQ(numbers("cat\neel"), (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(numbers("eel"), (std::vector<int64_t>{2}));
  EXPECT_EQ(numbers("dog\ncat\neel"), (std::vector<int64_t>{1, 0, 2}));
  const auto named_e = make_task(small(), facts({"cat", "caf\xc3\xa9"}));
  named_e->check(ClassStore({0}, "cafe\xcc\x81"));  // the same name in another Unicode form
  EXPECT_EQ(named_e->samples().class_numbers, (std::vector<int64_t>{1}));
  EXPECT_THAT(refusal(ClassStore({0, 1, 2}, "cat\neel")),
              HasSubstr("#2: class 2 is not between 0 and 1"));
}

TEST(Classify, RefusesAClassOutOfRangeWithFileAndSample) {
  EXPECT_THAT(refusal(ClassStore({0, 1, 3})), HasSubstr("#2: class 3 is not between 0 and 2"));
  EXPECT_THAT(refusal(ClassStore({0, -1, 2})), HasSubstr("#1: class -1"));
}

TEST(Classify, RefusesDataOfOtherClassesOrAnotherTask) {
  EXPECT_THAT(
      refusal(ClassStore({0, 1}, "dog\nfox\neel")),
      HasSubstr("has the classes dog, fox, eel; the network knows cat, dog, eel, but not fox"));
  EXPECT_THAT(refusal(ClassStore({0, 1}, "")),
              HasSubstr("has no classes; the network knows cat, dog, eel"));
  ClassStore other({0, 1});
  other.schema_to_change().task = "headpose";
  EXPECT_THAT(refusal(other), HasSubstr("holds samples of task 'headpose', not classify"));
  ClassStore angles({0, 1});
  angles.schema_to_change().target = {data::Element::kFloat32, {3}};
  EXPECT_THAT(refusal(angles), HasSubstr("/targets int64 [N]"));
}

TEST(Classify, NeedsTwoClasses) {
  const auto made = [](std::vector<std::string> classes) {
    return message_of<DataError>([&] { make_task(small(), facts(std::move(classes))); });
  };
  EXPECT_THAT(made({"cat"}), HasSubstr("the data have one, cat: `dtrain convert images DIR`"));
  EXPECT_THAT(made({}), HasSubstr("none (no class_names)"));
}

TEST(ConfigOf, MetadataOutOfRangeAreACheckpointError) {
  const Metadata good{{"task", "classify"},  {"network", "resnet18"}, {"image_size", "32"},
                      {"stored_size", "40"}, {"mean", "0,0.5,1"},     {"std", "0.25,0.25,0.25"}};
  EXPECT_EQ(config_of(good).model.image_size, 32);
  EXPECT_EQ(facts_of(good).stored_size, 40);
  for (const auto& [key, value] :
       Metadata{{"image_size", "4097"}, {"stored_size", "65537"}, {"mean", "0,0.5"}}) {
    for (const std::string& wrong : {value, std::string("0"), std::string("x")}) {
      Metadata metadata = good;
      metadata[key] = wrong;
      const auto read = [&] {
        config_of(metadata);
        facts_of(metadata);
      };
      testing::expect_error<CheckpointError>(read, {"model.safetensors says " + key});
    }
  }
  for (const char* wrong : {"0,0.25,0.25", "x,1,1", "1,1", "1,1,1,1", "-1,1,1", "inf,1,1"}) {
    Metadata metadata = good;
    metadata["std"] = wrong;
    testing::expect_error<CheckpointError>([&] { config_of(metadata); },
                                           {"says std", "not three numbers above 0"});
  }
}

}  // namespace
}  // namespace dtrain::tasks
