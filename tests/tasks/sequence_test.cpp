// Task sequence: its phases, what each of them trains, and the files that it refuses.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/error.h"
#include "data/loader/loader.h"
#include "data/loader/sample_check.h"
#include "layers/dropout.h"
#include "models/freeze.h"
#include "tasks/confusion.h"
#include "tasks/example_store.h"
#include "tasks/sequence/phases.h"
#include "tasks/task.h"

namespace dtrain::tasks {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

config::Config small_config() {
  config::Config config;
  config.task = catalog::task_named("sequence");
  config.model.hidden = 16;
  config.model.dropout = 0;
  config.sequence = {
      .encoder_epochs = 2, .classifier_epochs = 3, .iterations = 2, .encoder_lr_ratio = 0.5};
  return config;
}

std::string phases(const config::Sequence& sequence, int64_t epochs) {
  std::string text;
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    text += phase_of(sequence, epoch) == SequencePhase::kEncoder ? 'e' : 'c';
  }
  return text;
}

TEST(SequencePhases, AlternateAndEndWithTheClassifier) {
  EXPECT_EQ(phases(small_config().sequence, 13), "eeccceecccccc");
}

TEST(SequencePhases, ContinueWithoutALimitOfIterations) {
  EXPECT_EQ(phases({.encoder_epochs = 1, .classifier_epochs = 2, .iterations = 0}, 7), "eccecce");
  EXPECT_EQ(phases({.encoder_epochs = 0, .classifier_epochs = 2, .iterations = 0}, 3), "ccc");
}

TEST(Confusion, CountsByTargetAndPrediction) {
  const at::Tensor targets = at::tensor({0, 0, 1, 2, 2, 2}, at::kLong),
                   taken = at::tensor({0, 1, 1, 2, 0, 2}, at::kLong);
  const at::Tensor matrix = hits_and_misses(targets, taken, 4);
  EXPECT_TRUE(at::equal(
      matrix,
      at::tensor({1., 1., 0., 0., 0., 1., 0., 0., 1., 0., 2., 0., 0., 0., 0., 0.}).view({4, 4})));
  EXPECT_DOUBLE_EQ(accuracy(matrix), 4.0 / 6);
  // 2 TP / (predicted + samples): 2/4, 2/3, 4/5; the fourth class does not occur.
  EXPECT_DOUBLE_EQ(macro_f1(matrix), (0.5 + 2.0 / 3 + 0.8) / 3);
  const Table table = class_table(matrix, {"a", "b", "c", "d"});
  EXPECT_EQ(table.cells[2], (std::vector<double>{1, 2.0 / 3, 0.8, 3}));
  EXPECT_TRUE(std::isnan(table.cells[3][0]));
  EXPECT_EQ(confusion_table(matrix, {"a", "b", "c", "d"}).cells[2],
            (std::vector<double>{1, 0, 2, 0}));
}

// With 21 843 classes the matrix would take 3.8 GB per batch.
TEST(Confusion, OfManyClassesCountsEachAlone) {
  constexpr int64_t kMany = kLargestConfusion + 1;
  const at::Tensor targets = at::tensor({0, 0, 1, 2, 2, 100}, at::kLong),
                   taken = at::tensor({0, 1, 1, 2, 0, 100}, at::kLong);
  const at::Tensor counts = hits_and_misses(targets, taken, kMany);
  EXPECT_EQ(counts.sizes(), at::IntArrayRef({3, kMany}));
  EXPECT_FALSE(is_confusion(counts));
  EXPECT_EQ(samples_in(counts), 6);
  EXPECT_DOUBLE_EQ(accuracy(counts), 4.0 / 6);
  EXPECT_DOUBLE_EQ(macro_f1(counts), (0.5 + 2.0 / 3 + 2.0 / 3 + 1) / 4);
  const Table table = class_table(counts, std::vector<std::string>(kMany, "a"));
  EXPECT_EQ(table.cells[2], (std::vector<double>{1, 0.5, 2.0 / 3, 2}));
}

// A store that is wrong in one respect.
class OddStore : public ExampleStore {
 public:
  OddStore()
      : ExampleStore("sequence", {data::Element::kFloat32, {data::kVariable, 8}},
                     {data::Element::kInt64, {}}, 6) {}
  int64_t empty = -1, wrong_class = -1;
  std::string names = "ant\nbee\ncat";

  int64_t input_rows(int64_t id) const override {
    return id == empty ? 0 : ExampleStore::input_rows(id);
  }
  void read_target(int64_t id, std::span<std::byte> out) const override {
    ExampleStore::read_target(id, out);
    const int64_t number = 3;
    if (id == wrong_class) std::memcpy(out.data(), &number, sizeof(number));
  }
  std::string attribute(const std::string&) const override { return names; }
};

class SequenceTaskTest : public ::testing::Test {
 protected:
  const std::vector<int64_t> ids = {0, 1, 2, 3, 4, 5};

  std::string refusal(const OddStore& store, const config::Config& config = small_config()) {
    return refusal(store, facts_of(store, ids), config);
  }
  std::string refusal(const data::Store& store, const DataFacts& facts,
                      const config::Config& config = small_config()) {
    try {
      const auto task = make_task(config, facts);
      task->check(store);
      data::check_samples(store, task->samples());
    } catch (const DataError& e) {
      return e.what();
    }
    return "";
  }
  static TrainingPhase phase_named(const Task& task, const std::string& name) {
    for (int64_t epoch = 0; epoch < 100; ++epoch) {
      if (task.phase(epoch).name == name) return task.phase(epoch);
    }
    throw Error("no phase " + name);
  }
  static std::string refusal_of_epochs(const Task& task, int64_t epochs) {
    try {
      task.check_epochs(epochs, /*by_max_steps=*/false);
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "";
  }
  data::Batch batch(const Task& task) {
    data::Loader loader(store, ids, task.samples(),
                        {.batch_size = 6,
                         .global_batch = 6,
                         .steps = 1,
                         .shuffle = false,
                         .augment = false,
                         .threads = 1},
                        {});
    return loader.next();
  }

  OddStore store;
};

TEST_F(SequenceTaskTest, TakesItsOwnFiles) { EXPECT_EQ(refusal(store), ""); }

TEST_F(SequenceTaskTest, RefusesASequenceWithoutRowsByFileAndSample) {
  store.empty = 4;
  EXPECT_THAT(refusal(store), HasSubstr("example.h5#4: has no rows"));
}

TEST_F(SequenceTaskTest, RefusesAClassOutOfRangeByFileAndSample) {
  store.wrong_class = 2;
  EXPECT_THAT(refusal(store), HasSubstr("example.h5#2: class 3 is not between 0 and 2"));
}

TEST_F(SequenceTaskTest, RefusesOneClassOnly) {
  store.names = "ant";
  EXPECT_THAT(refusal(store), HasSubstr("1 classes"));
}

TEST_F(SequenceTaskTest, RefusesAnotherNumberOfFeatures) {
  DataFacts facts = facts_of(store, ids);
  facts.features = 5;
  EXPECT_THAT(refusal(store, facts), HasSubstr("rows have 8 features; the network takes 5"));
}

TEST_F(SequenceTaskTest, RefusesOtherTasksAndFields) {
  const data::Field rows{data::Element::kFloat32, {data::kVariable, 8}},
      label{data::Element::kInt64, {}};
  const DataFacts facts = facts_of(store, ids);
  EXPECT_THAT(refusal(ExampleStore("pointer", rows, label, 2), facts),
              HasSubstr("of task 'pointer', not sequence"));
  EXPECT_THAT(refusal(ExampleStore("sequence", rows, {data::Element::kFloat32, {3}}, 2), facts),
              HasSubstr("/targets int64"));
}

TEST_F(SequenceTaskTest, EachPhaseTrainsItsPart) {
  const auto trained = [&](Task& task, const std::string& phase, const std::string& parameter) {
    task.enter(phase_named(task, phase));
    return task.model().named_parameters()[parameter].requires_grad();
  };
  const auto task = make_task(small_config(), facts_of(store, ids));
  EXPECT_EQ(task->phase(0).name, "encoder");
  EXPECT_EQ(task->phase(2).name, "classifier");
  EXPECT_TRUE(trained(*task, "encoder", "conv1.weight"));
  EXPECT_TRUE(trained(*task, "encoder", "reconstruct.weight"));
  EXPECT_FALSE(trained(*task, "encoder", "fc.weight"));
  EXPECT_EQ(task->phase(0).lr_ratio("conv1.weight"), 1);
  EXPECT_TRUE(trained(*task, "classifier", "conv1.weight"));
  EXPECT_FALSE(trained(*task, "classifier", "reconstruct.weight"));
  EXPECT_TRUE(trained(*task, "classifier", "fc.weight"));
  EXPECT_EQ(task->phase(2).lr_ratio("lstm.weight_hh_l1"), 0.5);
  EXPECT_EQ(task->phase(2).lr_ratio("fc.weight"), 1);

  config::Config frozen = small_config();
  frozen.sequence.encoder_lr_ratio = 0;
  const auto other = make_task(frozen, facts_of(store, ids));
  EXPECT_FALSE(trained(*other, "classifier", "conv1.weight"));
  EXPECT_TRUE(trained(*other, "encoder", "conv1.weight"));
}

// The classifier phase freezes the encoder only for its duration, whatever model.freeze names.
TEST_F(SequenceTaskTest, TheEncodersStatisticsAreUpdatedAgainInItsNextPhase) {
  config::Config config = small_config();
  config.sequence.encoder_lr_ratio = 0;
  const auto task = make_task(config, facts_of(store, ids));
  const auto batches = [&] {
    return task->model().named_buffers()["bn1.num_batches_tracked"].item<int64_t>();
  };
  std::vector<int64_t> seen;
  for (const char* phase : {"encoder", "classifier", "encoder"}) {
    task->enter(phase_named(*task, phase));
    models::freeze(task->model(), {"fc.bias"});
    task->model().train();
    task->loss(batch(*task));
    seen.push_back(batches());
  }
  EXPECT_EQ(seen, (std::vector<int64_t>{1, 1, 2}));
}

TEST_F(SequenceTaskTest, AMetricIsMovedByThePhaseThatTrainsIt) {
  const auto task = make_task(small_config(), facts_of(store, ids));
  for (const bool encoder : {true, false}) {
    const TrainingPhase phase = phase_named(*task, encoder ? "encoder" : "classifier");
    for (const MetricSpec& metric : task->metrics()) {
      EXPECT_EQ(phase.moves(metric.name), encoder == (metric.name == "reconstruction_mse"))
          << metric.name;
    }
  }
}

TEST_F(SequenceTaskTest, ReportsThePhasesThatTrainEpochsLeavesOut) {
  config::Config config = small_config();
  config.sequence = {.encoder_epochs = 15, .classifier_epochs = 15, .iterations = 5};
  const auto task = make_task(config, facts_of(store, ids));
  EXPECT_THAT(refusal_of_epochs(*task, 15),
              AllOf(HasSubstr("5 iterations of 15 + 15 epochs need 150 epochs; train.epochs is 15"),
                    HasSubstr("the classifier would never be trained"),
                    HasSubstr("sequence.encoder_epochs")));
  EXPECT_THAT(task->check_epochs(16, false),
              HasSubstr("5 iterations of 15 + 15 epochs need 150 epochs; train.epochs is 16"));
  EXPECT_THAT(task->check_epochs(149, false), HasSubstr("train.epochs is 149"));
  EXPECT_EQ(task->check_epochs(150, false), "");
  EXPECT_THAT(task->check_epochs(15, /*by_max_steps=*/true),
              AllOf(HasSubstr("train.max_steps ends the training in epoch 15"),
                    HasSubstr("not trained at all")));
  EXPECT_THAT(task->check_epochs(16, true), HasSubstr("Use more --train.max_steps"));

  config.sequence.iterations = 0;
  const auto endless = make_task(config, facts_of(store, ids));
  EXPECT_THAT(refusal_of_epochs(*endless, 2),
              HasSubstr("one iteration of 15 + 15 epochs needs 30 epochs; train.epochs is 2"));
  EXPECT_EQ(endless->check_epochs(16, false), "");

  config.sequence.encoder_epochs = 0;
  EXPECT_EQ(make_task(config, facts_of(store, ids))->check_epochs(1, false), "");
}

TEST_F(SequenceTaskTest, TheEncodersWeightIsTheNumberOfHiddenElements) {
  config::Config config = small_config();
  config.augment.mask_share = 1;
  const auto task = make_task(config, facts_of(store, ids));
  task->enter(phase_named(*task, "encoder"));
  const data::Batch all = batch(*task);
  EXPECT_EQ(task->loss(all).weight.item<double>(), static_cast<double>(all.rows * 8));
  EXPECT_NEAR(task->planned_weight(6), static_cast<double>(all.rows * 8),
              1e-6 * static_cast<double>(all.rows * 8));
}

TEST_F(SequenceTaskTest, TheEvaluatedLossIsWithoutSmoothing) {
  const auto loss = [&](double smoothing) {
    config::Config config = small_config();
    config.train.label_smoothing = smoothing;
    const auto task = make_task(config, facts_of(store, ids));
    task->model().eval();
    const at::NoGradGuard no_grad;
    const auto counted = task->count(batch(*task));
    task->enter(phase_named(*task, "classifier"));
    return std::pair(task->loss(batch(*task)).sum().item<double>(),
                     number_of(counted.sums, "loss"));
  };
  const auto [plain_trained, plain] = loss(0);
  const auto [smoothed_trained, smoothed] = loss(0.3);
  EXPECT_EQ(plain, smoothed);
  EXPECT_EQ(plain, plain_trained);
  EXPECT_NE(plain, smoothed_trained);
}

TEST_F(SequenceTaskTest, NoiseFollowsEpochAndSeed) {
  const auto loss = [&](uint64_t seed, int64_t epoch) {
    config::Config config = small_config();
    config.train.seed = 1;  // of the weights
    const auto task = make_task(config, facts_of(store, ids));
    task->enter(phase_named(*task, "encoder"));
    data::Batch all = batch(*task);
    all.epoch = epoch;
    config.train.seed = seed;
    const auto other = make_task(config, facts_of(store, ids));
    const at::NoGradGuard no_grad;
    for (auto& item : other->model().named_parameters())
      item.value().copy_(task->model().named_parameters()[item.key()]);
    other->enter(phase_named(*other, "encoder"));
    return other->loss(all).sum().item<double>();
  };
  EXPECT_EQ(loss(1, 0), loss(1, 0));
  EXPECT_NE(loss(1, 0), loss(1, 1));
  EXPECT_NE(loss(1, 0), loss(2, 0));
}

TEST_F(SequenceTaskTest, PredictsNamesAndProbabilities) {
  const auto task = make_task(small_config(), facts_of(store, ids));
  task->model().eval();
  const at::NoGradGuard no_grad;
  const std::vector<Row> rows = task->predict(batch(*task));
  ASSERT_EQ(rows.size(), 6u);
  for (const Row& row : rows) {
    EXPECT_THAT((std::vector<std::string>{"ant", "bee", "cat"}),
                ::testing::Contains(std::get<std::string>(row[0])));
    EXPECT_GE(std::get<double>(row[1]), 1.0 / 3);
    EXPECT_LE(std::get<double>(row[1]), 1);
  }
}

}  // namespace
}  // namespace dtrain::tasks
