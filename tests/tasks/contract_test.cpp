// The contract of every task, run for each task of the table on samples made for it: the loss is
// finite, one batch can be overfitted, counts of parts add up to those of the whole, N ranks train
// like one, the state round-trips, predictions give the metrics that evaluation gives, and all of
// it works in double precision.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/optim.h>

#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "checkpoint/safetensors.h"
#include "config/config.h"
#include "core/error.h"
#include "layers/dropout.h"
#include "models/load_weights.h"
#include "models/parameter_format.h"
#include "tasks/example_store.h"
#include "tasks/module_file.h"
#include "tasks/short_run.h"
#include "train/evaluate.h"
#include "train/trainer.h"

namespace dtrain::tasks {
namespace {

config::Config small(const std::string& task) {
  config::Config config = example_config(task);
  config.model.dropout = 0;
  if (catalog::row(config.task).network_from_file()) config.model.file = module_file().string();
  config.train.epochs = 2;
  config.augment.noise = 0.123456789;
  config.augment.mask_share = 0.6;
  config.augment.mask_span = 3;
  config.sequence = {
      .encoder_epochs = 1, .classifier_epochs = 1, .iterations = 0, .encoder_lr_ratio = 1};
  return config;
}

data::Batch batch_of(const Task& task, const Example& example, std::vector<int64_t> ids) {
  const auto samples = static_cast<int64_t>(ids.size());
  data::Loader loader(*example.store, std::move(ids), task.samples(),
                      {.batch_size = samples,
                       .global_batch = samples,
                       .steps = 1,
                       .shuffle = false,
                       .augment = false,
                       .threads = 1},
                      {});
  return loader.next();
}

class EveryTask : public ::testing::TestWithParam<std::string> {
 protected:
  data::Batch batch(std::vector<int64_t> ids) { return batch_of(*task, example, std::move(ids)); }

  // Each phase of a run, once, entered.
  void in_each_phase(const std::function<void(const TrainingPhase&)>& body) {
    for (const train::RunPhase& one : train::phases_of(*task, config.train.epochs)) {
      SCOPED_TRACE("phase " + one.phase.name);
      task->enter(one.phase);
      task->model().train();
      body(one.phase);
    }
  }

  void expect_round_trip();  // through a checkpoint's model.safetensors

  config::Config config = small(GetParam());
  Example example = example_for(config);
  std::unique_ptr<Task> task = make_task(config, example.facts);
};

TEST_P(EveryTask, HasAFiniteLossAndGradientInEachPhase) {
  const data::Batch batch = this->batch({0, 1, 2, 3});
  in_each_phase([&](const TrainingPhase&) {
    const layers::RandomScope randomness(layers::random_context(1, 0, batch.sample_ids));
    const Loss loss = task->loss(batch);
    EXPECT_TRUE(std::isfinite(loss.sum().item<double>()));
    const double ratio = loss.weight.item<double>() / task->planned_weight(4);
    EXPECT_TRUE(ratio > 1.0 / 16 && ratio < 16)
        << "planned " << task->planned_weight(4) << ", is " << ratio << " times it";
    EXPECT_EQ(loss.per_sample.sizes(), at::IntArrayRef({4}));
    EXPECT_TRUE(loss.per_sample.requires_grad());
    EXPECT_TRUE(loss.per_sample.scalar_type() == at::kFloat ||
                loss.per_sample.scalar_type() == at::kDouble);
    EXPECT_EQ(loss.weight.numel(), 1);
    loss.sum().backward();
    for (const auto& parameter : task->model().named_parameters()) {
      if (!parameter.value().requires_grad()) continue;
      ASSERT_TRUE(parameter.value().grad().defined()) << parameter.key();
      EXPECT_TRUE(parameter.value().grad().isfinite().all().item<bool>()) << parameter.key();
    }
  });
}

// And a metric that the phase says it moves follows.
TEST_P(EveryTask, OverfitsOneBatchInEachPhase) {
  const data::Batch batch = this->batch({0, 1, 2, 3});
  const auto evaluated = [&] {
    const at::NoGradGuard no_grad;
    task->model().eval();
    const Summary summary = task->summarise(task->count(batch).sums);
    task->model().train();
    return std::map<std::string, double>(summary.metrics.begin(), summary.metrics.end());
  };
  in_each_phase([&](const TrainingPhase& phase) {
    const auto before = evaluated();
    std::vector<at::Tensor> learning;
    for (const at::Tensor& parameter : task->model().parameters()) {
      if (parameter.requires_grad()) learning.push_back(parameter);
    }
    torch::optim::Adam optimizer(learning, torch::optim::AdamOptions(5e-3));
    double first = 0, last = 0;
    for (int step = 0; step < 600 && (step == 0 || last > 0.05 * first); ++step) {
      const layers::RandomScope randomness(layers::random_context(1, step, batch.sample_ids));
      optimizer.zero_grad();
      const Loss loss = task->loss(batch);
      (loss.sum() / loss.weight).backward();
      optimizer.step();
      last = (loss.sum() / loss.weight).item<double>();
      if (step == 0) first = last;
    }
    EXPECT_LE(last, 0.05 * first);
    const std::string moved = phase.metrics.empty() ? "loss" : phase.metrics.front();
    EXPECT_NE(before.at(moved), evaluated().at(moved))
        << moved << " does not follow the training of this phase";
    for (const std::string& name : phase.metrics) EXPECT_TRUE(before.contains(name)) << name;
  });
}

TEST_P(EveryTask, CountsAddUpInEachPhase) {
  in_each_phase([&](const TrainingPhase&) {
    task->model().eval();
    const at::NoGradGuard no_grad;
    const Counts at_once = task->count(batch({0, 1, 2, 3, 4, 5})).sums;
    const Counts first = task->count(batch({0, 1})).sums,
                 second = task->count(batch({2, 3, 4, 5})).sums;
    ASSERT_EQ(first.size(), at_once.size());
    ASSERT_EQ(second.size(), at_once.size());
    for (size_t i = 0; i < at_once.size(); ++i) {
      const auto& [name, sum] = at_once[i];
      EXPECT_EQ(sum.scalar_type(), at::kDouble) << name;
      EXPECT_EQ(first[i].first, name);
      ASSERT_EQ(first[i].second.sizes(), sum.sizes()) << name;
      ASSERT_EQ(second[i].second.sizes(), sum.sizes()) << name;
      EXPECT_TRUE(at::allclose(first[i].second + second[i].second, sum, 1e-5, 1e-5)) << name;
    }
  });
}

TEST_P(EveryTask, SummarisesTheMetricsItNamesInEachPhase) {
  in_each_phase([&](const TrainingPhase&) {
    task->model().eval();
    const at::NoGradGuard no_grad;
    const Counted counted = task->count(batch({0, 1, 2, 3, 4}));
    const Summary summary = task->summarise(counted.sums);
    const std::vector<MetricSpec> specs = task->metrics();
    ASSERT_GE(specs.size(), 2u) << "the loss and the primary metric";
    EXPECT_EQ(specs[0].name, "loss");
    EXPECT_EQ(std::ranges::count(specs, true, &MetricSpec::primary), 1);
    ASSERT_EQ(summary.metrics.size(), specs.size());
    for (size_t i = 0; i < specs.size(); ++i) {
      EXPECT_EQ(summary.metrics[i].first, specs[i].name);
      EXPECT_TRUE(std::isfinite(summary.metrics[i].second)) << specs[i].name;
    }
    for (const Table& table : summary.tables) {
      ASSERT_EQ(table.cells.size(), table.rows.size()) << table.name;
      for (const auto& row : table.cells) EXPECT_EQ(row.size(), table.columns.size()) << table.name;
    }
    ASSERT_TRUE(counted.errors.defined()) << "eval could not name the worst samples";
    EXPECT_EQ(counted.errors.sizes(), at::IntArrayRef({5}));
    EXPECT_EQ(counted.errors.scalar_type(), at::kDouble);
  });
}

// One metric from the rows of predict and the stored targets, by the names of the columns.
struct Recomputed {
  std::string metric;
  double value = 0;
};

std::optional<Recomputed> recompute(const Task& task, const Example& example,
                                    const std::vector<Row>& rows) {
  const std::vector<std::string> columns = task.columns();
  const auto has_metric = [&](const char* name) {
    for (const MetricSpec& metric : task.metrics()) {
      if (metric.name == name) return true;
    }
    return false;
  };
  double sum = 0, weight = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto id = static_cast<int64_t>(i);
    if (columns[0] == "class") {
      const int64_t label = data::read_target_as<int64_t>(*example.store, id)[0];
      sum += std::get<std::string>(rows[i][0]) == example.facts.classes[static_cast<size_t>(label)];
      weight += 1;
    } else if (columns[0] == "order") {
      const std::vector<int64_t> right = data::read_target_as<int64_t>(*example.store, id);
      const auto& order = std::get<std::vector<int64_t>>(rows[i][0]);
      EXPECT_EQ(order.size(), right.size());
      for (size_t k = 0; k < right.size(); ++k) sum += order[k] == right[k];
      weight += static_cast<double>(right.size());
    } else if (has_metric("mae")) {  // numbers: one column each, or one column of all
      const std::vector<float> target = data::read_target_as<float>(*example.store, id);
      std::vector<double> values;
      for (const Value& value : rows[i]) {
        if (const auto* list = std::get_if<std::vector<double>>(&value)) values = *list;
        if (const auto* number = std::get_if<double>(&value)) values.push_back(*number);
      }
      EXPECT_EQ(values.size(), target.size());
      for (size_t k = 0; k < target.size(); ++k)
        sum += std::abs(values[k] - static_cast<double>(target[k]));
      weight += static_cast<double>(target.size());
    } else {
      return std::nullopt;
    }
  }
  const char* name = columns[0] == "order"   ? "position_accuracy"
                     : columns[0] != "class" ? "mae"
                     : has_metric("top1")    ? "top1"
                                             : "accuracy";
  return Recomputed{name, sum / weight};
}

TEST_P(EveryTask, PredictionsGiveTheMetricsOfTheEvaluationInEachPhase) {
  const auto compare = [&](dist::Communicator& comm) {
    const monitoring::EvalStats stats =
        train::evaluate(*task, *example.store, example.ids, "test", {.batch_size = 5}, comm).stats;
    const at::NoGradGuard no_grad;
    task->model().eval();
    data::Batch all = batch(example.ids);
    all.targets = at::Tensor();  // not needed
    const std::vector<Row> rows = task->predict(all);
    ASSERT_EQ(rows.size(), example.ids.size());
    for (const Row& row : rows) EXPECT_EQ(row.size(), task->columns().size());
    const std::optional<Recomputed> recomputed = recompute(*task, example, rows);
    ASSERT_TRUE(recomputed) << "this suite does not know how to recompute a metric from column "
                            << task->columns()[0];
    EXPECT_NEAR(train::metric(stats, recomputed->metric), recomputed->value,
                1e-5 * std::max(1.0, recomputed->value));
  };
  in_each_phase([&](const TrainingPhase&) { dist::run_thread_world(1, compare); });
}

TEST_P(EveryTask, StateRoundTripsInEachPhase) {
  in_each_phase([&](const TrainingPhase&) { expect_round_trip(); });
}

void EveryTask::expect_round_trip() {
  checkpoint::NamedTensors state;
  for (const auto& item : task->model().named_parameters())
    state.emplace_back(item.key(), item.value().detach());
  for (const auto& item : task->model().named_buffers())
    state.emplace_back(item.key(), item.value());
  const checkpoint::TensorFile file =
      checkpoint::from_safetensors(checkpoint::to_safetensors(state, task->metadata()), "state");
  config::Config other = config_of(file.metadata);
  EXPECT_EQ(name_of(other.task), GetParam());
  EXPECT_EQ(other.model.name, config::network_of(config));
  if (task->samples().kind == data::SampleSpec::Kind::kImage) {
    EXPECT_EQ(other.model.image_size, 32);
  }
  other.model.file = config.model.file;
  other.train.seed = 99;
  const std::unique_ptr<Task> restored = make_task(other, facts_of(file.metadata));
  models::load_all(restored->model(), file.tensors);
  const data::Batch batch = this->batch({0, 1, 2});
  const at::NoGradGuard no_grad;
  task->model().eval();
  restored->model().eval();
  EXPECT_EQ(task->predict(batch), restored->predict(batch));
  const Counts counts = task->count(batch).sums, again = restored->count(batch).sums;
  ASSERT_EQ(counts.size(), again.size());
  for (size_t i = 0; i < counts.size(); ++i) {
    EXPECT_TRUE(at::equal(counts[i].second, again[i].second))
        << "evaluated otherwise: " << counts[i].first;
  }
}

TEST_P(EveryTask, InDoublePrecisionCountersStayCounters) {
  models::convert_floating_point(task->model(), at::kDouble);
  for (const auto& item : task->model().named_parameters())
    EXPECT_EQ(item.value().scalar_type(), at::kDouble) << item.key();
  for (const auto& item : task->model().named_buffers()) {
    EXPECT_EQ(item.value().scalar_type(),
              item.key().ends_with("num_batches_tracked") ? at::kLong : at::kDouble)
        << item.key();
  }
  data::Batch batch = this->batch({0, 1, 2});
  train::to_precision(batch, train::Precision::kFp64);
  in_each_phase([&](const TrainingPhase&) {
    const layers::RandomScope randomness(layers::random_context(1, 0, batch.sample_ids));
    const Loss loss = task->loss(batch);
    EXPECT_EQ(loss.sum().scalar_type(), at::kDouble);
    EXPECT_EQ(loss.weight.scalar_type(), at::kDouble);
  });
}

// A short run in float64, with dropout and in all phases; batch norm shares its statistics where
// the task lets it.
std::vector<at::Tensor> trained(config::Config config, const Example& example, int ranks) {
  config.train.batch_size = config.train.global_batch = 5;
  config.run.log_every = {.steps = 1};
  config.optimizer.name = config::OptimizerName::kSgd;
  config.optimizer.lr = 0.02;
  config.schedule.name = config::ScheduleName::kConstant;
  return weights_after({.config = config, .ranks = ranks}, example);
}

TEST_P(EveryTask, ManyRanksTrainAsOne) {
  config.model.dropout = 0.25;
  config.train.sync_batch_norm = true;
  try {
    make_task(config, example.facts);
  } catch (const ConfigError&) {  // task module
    config.train.sync_batch_norm = false;
  }
  const std::vector<at::Tensor> one = trained(config, example, 1);
  double moved = 0;
  size_t i = 0;
  for (const at::Tensor& start : make_task(config, example.facts)->model().parameters()) {
    moved = std::max(moved, (start.to(at::kDouble) - one[i++]).abs().max().item<double>());
  }
  EXPECT_GT(moved, 1e-4) << "nothing was learned: nothing would be compared";
  for (const int ranks : {2, 3}) {
    const std::vector<at::Tensor> many = trained(config, example, ranks);
    ASSERT_EQ(many.size(), one.size());
    for (size_t k = 0; k < one.size(); ++k) {
      EXPECT_LE((one[k] - many[k]).abs().max().item<double>(),
                1e-9 * std::max(1.0, one[k].abs().max().item<double>()))
          << ranks << " ranks, tensor " << k;
    }
  }
}

TEST(SequenceTask, GoesThroughBothPhasesHere) {
  const config::Config config = small("sequence");
  std::vector<std::string> names;
  const std::unique_ptr<Task> task = make_task(config, example_for(config).facts);
  for (const train::RunPhase& one : train::phases_of(*task, config.train.epochs))
    names.push_back(one.phase.name);
  EXPECT_EQ(names, (std::vector<std::string>{"encoder", "classifier"}));
}

bool recomputes(const at::Tensor& loss) {
  std::set<torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> open = {loss.grad_fn().get()};
  while (!open.empty()) {
    torch::autograd::Node* node = open.back();
    open.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    if (node->name().find("Checkpointed") != std::string::npos) return true;
    for (const torch::autograd::Edge& edge : node->next_edges())
      open.push_back(edge.function.get());
  }
  return false;
}

TEST(ConvolutionalTasks, RecomputeActivationsWhereTheConfigurationSaysSo) {
  for (const char* name : {"classify", "headpose"}) {
    for (const bool checkpointing : {false, true}) {
      config::Config config = small(name);
      config.model.checkpointing = checkpointing;
      const Example example = example_for(config);
      const auto task = make_task(config, example.facts);
      const data::Batch batch = batch_of(*task, example, {0, 1, 2, 3});
      const layers::RandomScope randomness(layers::random_context(1, 0, batch.sample_ids));
      EXPECT_EQ(recomputes(task->loss(batch).sum()), checkpointing) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryTask, ::testing::ValuesIn(names_of(catalog::TaskId{})),
                         [](const auto& info) { return info.param; });

TEST(Registry, AnUnknownTaskIsNamedWithTheKnownOnes) {
  try {
    config_of({{"task", "headpos"}, {"network", "headpose_cnn"}});
    FAIL() << "accepted";
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("headpose"), std::string::npos);
  }
}

}  // namespace
}  // namespace dtrain::tasks
