// What every task must keep, run for each task of the registry: the loss is finite, one batch can be learned by heart,
// losses and metrics of two halves add up to those of the whole, and the state round-trips.

#include <gtest/gtest.h>

#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "models/random_context.h"
#include "models/state.h"
#include "tasks/module_file.h"
#include "tasks/task.h"

namespace dtrain::tasks {
namespace {

config::Config small(const std::string& task) {
  config::Config config;
  config.task = task;
  config.model.image_size = 32;
  config.model.dropout = 0;
  if (task == "module") config.model.file = module_file().string();
  return config;
}

// What the data of `task` would say.
DataFacts facts_for(const std::string& task) {
  DataFacts facts;
  if (task == "classify") {
    facts.stored_size = 32;
    facts.classes = {"cat", "dog", "eel", "fox", "gnu", "hen", "ibis"};
    facts.class_counts = {2, 2, 2, 2, 2, 2, 2};
  }
  return facts;
}

data::Batch batch_of(const Task& task, int64_t samples, uint64_t seed = 7) {
  torch::manual_seed(seed);
  data::Batch batch;
  const int64_t size = task.samples().image_size;
  batch.inputs = at::randn({samples, 3, size, size}).contiguous(at::MemoryFormat::ChannelsLast);
  if (task.metadata().at("task") == "classify") {
    batch.targets = at::randint(0, 7, {samples}, at::kLong);
  } else {
    batch.targets = at::rand({samples, 3}) * 120 - 60;
    if (task.metadata().at("task") == "module") batch.targets /= 60;  // no unit of its own
  }
  for (int64_t id = 0; id < samples; ++id) batch.ids.push_back(id);
  batch.global_samples = samples;
  return batch;
}

data::Batch half(const data::Batch& whole, int64_t begin, int64_t end) {
  data::Batch part = whole;
  part.inputs = whole.inputs.slice(0, begin, end);
  part.targets = whole.targets.slice(0, begin, end);
  part.ids.assign(whole.ids.begin() + begin, whole.ids.begin() + end);
  return part;
}

class EveryTask : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Task> task = make_task(small(GetParam()), facts_for(GetParam()));
};

TEST_P(EveryTask, HasAFiniteLossAndGradient) {
  const data::Batch batch = batch_of(*task, 4);
  task->model().train();
  const models::RandomScope randomness({1, 0, at::tensor(batch.ids)});
  const Loss loss = task->loss(batch);
  EXPECT_TRUE(std::isfinite(loss.sum.item<double>()));
  EXPECT_EQ(loss.weight.item<double>(), task->planned_weight(4));
  loss.sum.backward();
  for (const auto& parameter : task->model().named_parameters()) {
    ASSERT_TRUE(parameter.value().grad().defined()) << parameter.key();
    EXPECT_TRUE(parameter.value().grad().isfinite().all().item<bool>()) << parameter.key();
  }
}

TEST_P(EveryTask, LearnsOneBatchByHeart) {
  const data::Batch batch = batch_of(*task, 4);
  task->model().train();
  torch::optim::Adam optimizer(task->model().parameters(), torch::optim::AdamOptions(2e-3));
  double first = 0, last = 0;
  for (int step = 0; step < 60; ++step) {
    const models::RandomScope randomness({1, step, at::tensor(batch.ids)});
    optimizer.zero_grad();
    const Loss loss = task->loss(batch);
    (loss.sum / loss.weight).backward();
    optimizer.step();
    last = (loss.sum / loss.weight).item<double>();
    if (step == 0) first = last;
  }
  EXPECT_LT(last, 0.05 * first);
}

TEST_P(EveryTask, CountsAddUp) {
  const data::Batch whole = batch_of(*task, 6);
  task->model().eval();
  const at::NoGradGuard no_grad;
  const Counts at_once = task->count(whole).sums;
  const Counts first = task->count(half(whole, 0, 2)).sums, second = task->count(half(whole, 2, 6)).sums;
  ASSERT_EQ(first.size(), at_once.size());
  ASSERT_EQ(second.size(), at_once.size());
  for (size_t i = 0; i < at_once.size(); ++i) {
    const auto& [name, sum] = at_once[i];
    EXPECT_EQ(sum.scalar_type(), at::kDouble) << name;
    EXPECT_EQ(first[i].first, name);
    ASSERT_EQ(first[i].second.sizes(), sum.sizes()) << name;
    EXPECT_TRUE(at::allclose(first[i].second + second[i].second, sum, 1e-5, 1e-5)) << name;
  }
}

TEST_P(EveryTask, SummarisesTheMetricsItNames) {
  const data::Batch batch = batch_of(*task, 5);
  task->model().eval();
  const at::NoGradGuard no_grad;
  const Counted counted = task->count(batch);
  const Summary summary = task->summarise(counted.sums);
  const std::vector<MetricSpec> specs = task->metrics();
  ASSERT_GE(specs.size(), 2u) << "the loss and the primary metric";
  EXPECT_EQ(specs[0].name, "loss");
  ASSERT_EQ(summary.metrics.size(), specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    EXPECT_EQ(summary.metrics[i].first, specs[i].name);
    EXPECT_TRUE(std::isfinite(summary.metrics[i].second)) << specs[i].name;
  }
  for (const Table& table : summary.tables) {
    ASSERT_EQ(table.cells.size(), table.rows.size()) << table.name;
    for (const auto& row : table.cells) EXPECT_EQ(row.size(), table.columns.size()) << table.name;
  }
  if (counted.errors.defined()) {
    EXPECT_EQ(counted.errors.sizes(), at::IntArrayRef({5}));
    EXPECT_EQ(counted.errors.scalar_type(), at::kDouble);
  }
}

TEST_P(EveryTask, StateRoundTrips) {
  checkpoint::NamedTensors state;
  for (const auto& item : task->model().named_parameters()) state.emplace_back(item.key(), item.value().detach());
  for (const auto& item : task->model().named_buffers()) state.emplace_back(item.key(), item.value());
  const checkpoint::TensorFile file =
      checkpoint::from_safetensors(checkpoint::to_safetensors(state, task->metadata()), "state");
  config::Config other = small(GetParam());
  other.train.seed = 99;
  const std::unique_ptr<Task> restored = make_task(other, facts_for(GetParam()));
  models::load_all(restored->model(), file.tensors);
  const data::Batch batch = batch_of(*task, 3);
  const at::NoGradGuard no_grad;
  task->model().eval();
  restored->model().eval();
  EXPECT_EQ(task->predict(batch), restored->predict(batch));
  EXPECT_EQ(file.metadata.at("task"), GetParam());
  EXPECT_EQ(config_of(file.metadata).model.image_size, 32);
}

TEST_P(EveryTask, InDoublePrecisionCountersStayCounters) {
  models::convert_floating_point(task->model(), at::kDouble);
  for (const auto& item : task->model().named_parameters())
    EXPECT_EQ(item.value().scalar_type(), at::kDouble) << item.key();
  for (const auto& item : task->model().named_buffers()) {
    EXPECT_EQ(item.value().scalar_type(), item.key().ends_with("num_batches_tracked") ? at::kLong : at::kDouble)
        << item.key();
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryTask, ::testing::ValuesIn(task_names()),
                         [](const auto& info) { return info.param; });

TEST(Registry, AnUnknownTaskIsNamedWithTheKnownOnes) {
  try {
    make_task(small("headpos"), {});
    FAIL() << "accepted";
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("headpose"), std::string::npos);
  }
}

}  // namespace
}  // namespace dtrain::tasks
