// Task pointer: its errors, its metrics, and what its decoder receives.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/error.h"
#include "data/loader/sample_check.h"
#include "layers/teacher_forcing.h"
#include "models/pointer_network.h"
#include "support/made_origin.h"
#include "tasks/task.h"
#include "text/strings.h"

namespace dtrain::tasks {
namespace {

// Sets without a file: sample i has elements[i] elements and the order orders[i].
class SetStore : public data::Store, public dtrain::testing::MadeOrigin {
 public:
  explicit SetStore(std::vector<std::vector<int64_t>> orders)
      : MadeOrigin("sets.h5", "sets.npz#"), orders_(std::move(orders)) {
    changeable.task = "pointer";
    changeable.input = {data::Element::kFloat32, {data::kVariable, 8}};
    changeable.target = {data::Element::kInt64, {data::kVariable}};
    changeable.samples = static_cast<int64_t>(orders_.size());
    for (const auto& order : orders_) elements.push_back(static_cast<int64_t>(order.size()));
  }
  data::Schema changeable;
  std::vector<int64_t> elements;

  const data::Schema& schema() const override { return changeable; }
  const data::Origin& origin() const override { return *this; }
  int64_t input_rows(int64_t id) const override { return elements[static_cast<size_t>(id)]; }
  int64_t target_rows(int64_t id) const override { return static_cast<int64_t>(of(id).size()); }
  void read_input(int64_t, std::span<std::byte> out) const override {
    std::fill(out.begin(), out.end(), std::byte{});
  }
  void read_target(int64_t id, std::span<std::byte> out) const override {
    if (!out.empty()) std::memcpy(out.data(), of(id).data(), out.size());
  }
  uint64_t checksum(int64_t) const override { return 0; }
  void verify(const ReportProgress&) const override {}

 private:
  const std::vector<int64_t>& of(int64_t id) const { return orders_[static_cast<size_t>(id)]; }
  std::vector<std::vector<int64_t>> orders_;
};

config::Config small() {
  config::Config config;
  config.task = catalog::task_named("pointer");
  config.model.hidden = 16;
  config.model.dropout = 0;
  return config;
}

std::string refusal(const SetStore& store, const DataFacts& facts = {},
                    const config::Config& config = small()) {
  try {
    const auto task = make_task(config, facts);
    task->check(store);
    data::check_samples(store, task->samples());
    return "accepted";
  } catch (const DataError& error) {
    return error.what();
  }
}

void expect_says(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(message.find(part), std::string::npos) << message;
}

data::Batch batch_of(const std::vector<std::vector<int64_t>>& orders, int64_t longest) {
  at::manual_seed(2);
  const auto count = static_cast<int64_t>(orders.size());
  data::Batch batch;
  batch.inputs = at::zeros({count, longest, 8});
  batch.targets = at::full({count, longest}, -1, at::kLong);
  batch.lengths = at::zeros({count}, at::kLong);
  for (int64_t i = 0; i < count; ++i) {
    const auto& order = orders[static_cast<size_t>(i)];
    const auto length = static_cast<int64_t>(order.size());
    batch.inputs[i].slice(0, 0, length).slice(1, 0, 7).copy_(at::rand({length, 7}));
    batch.targets[i].slice(0, 0, length).copy_(at::tensor(order, at::kLong));
    batch.lengths[i] = length;
    batch.rows += length;
    batch.ids.push_back(i);
  }
  batch.global_samples = count;
  return batch;
}

const std::vector<std::vector<int64_t>> kOrders = {{2, 0, 1}, {0}, {1, 0, 2, 4, 3}, {1, 0}};

TEST(PointerTask, AcceptsSetsOfPermutations) { EXPECT_EQ(refusal(SetStore(kOrders)), "accepted"); }

TEST(PointerTask, NamesASampleWhoseOrderIsNotAPermutation) {
  expect_says(refusal(SetStore({{0, 1}, {0, 2, 2}})),
              {"sets.h5#1", "element 2 twice", "sets.npz#1", "Convert the raw data again"});
  expect_says(refusal(SetStore({{0, 1}, {1, 0}, {0, 3, 1}})),
              {"sets.h5#2", "element 3 of a set of 3"});
  expect_says(refusal(SetStore({{-1, 0}})), {"sets.h5#0", "element -1"});
  SetStore shorter({{0, 1}, {1, 0, 2}});
  shorter.elements[1] = 4;
  expect_says(refusal(shorter), {"sets.h5#1", "has 3 entries for 4 elements"});
  expect_says(refusal(SetStore({{0}, {}})), {"sets.h5#1", "no rows"});
}

TEST(PointerTask, NamesASampleLongerThanTheNetworkWasMadeFor) {
  expect_says(refusal(SetStore(kOrders), {.longest = 4}), {"sets.h5#2", "5 rows", "up to 4"});
  EXPECT_EQ(refusal(SetStore(kOrders), {.longest = 5}), "accepted");
}

TEST(PointerTask, RefusesOtherFeaturesAndOtherTasks) {
  SetStore seven(kOrders);
  seven.changeable.input.shape[1] = 7;
  expect_says(refusal(seven), {"sets.h5#0", "7 features", "takes 8"});
  SetStore classes(kOrders);
  classes.changeable.target = {data::Element::kInt64, {}};
  expect_says(refusal(classes), {"/targets int64 [elements]"});
  SetStore other(kOrders);
  other.changeable.task = "sequence";
  expect_says(refusal(other), {"'sequence', not pointer"});
}

TEST(PointerTask, MetricsAreThoseOfThePredictedOrders) {
  const auto task = make_task(small(), {});
  task->model().eval();
  const at::NoGradGuard no_grad;
  data::Batch batch = batch_of(kOrders, 5);
  const std::vector<Row> rows = task->predict(batch);
  ASSERT_EQ(rows.size(), 4u);
  // Sample 0 and 1 as predicted, in sample 2 the last two exchanged, sample 3 the other way round.
  for (int64_t i = 0; i < 4; ++i) {
    auto order = std::get<std::vector<int64_t>>(rows[static_cast<size_t>(i)][0]);
    ASSERT_EQ(order.size(), kOrders[static_cast<size_t>(i)].size());
    if (i >= 2) std::swap(order[order.size() - 2], order[order.size() - 1]);
    batch.targets[i]
        .slice(0, 0, static_cast<int64_t>(order.size()))
        .copy_(at::tensor(order, at::kLong));
  }
  const Counted counted = task->count(batch);
  const Summary summary = task->summarise(counted.sums);
  ASSERT_EQ(summary.metrics.size(), task->metrics().size());
  EXPECT_EQ(summary.metrics[1].first, "position_accuracy");
  EXPECT_DOUBLE_EQ(summary.metrics[1].second, 7.0 / 11);
  EXPECT_DOUBLE_EQ(summary.metrics[2].second, 2.0 / 4);
  EXPECT_EQ(counted.errors[3].item<double>(), 1);
  const Loss loss = task->loss(batch);
  EXPECT_NEAR(summary.metrics[0].second, (loss.sum() / loss.weight).item<double>(), 1e-6);
  EXPECT_EQ(loss.weight.item<double>(), 11);
}

TEST(PointerTask, TheLossWithoutTeacherForcingDoesNotDependOnTheBatch) {
  config::Config config = small();
  config.pointer = {.teacher_forcing = 0.5, .teacher_forcing_end = 0.5};
  const auto task = make_task(config, {});
  task->model().train();
  const data::Batch whole = batch_of(kOrders, 5);
  const at::Tensor of_whole = task->loss(whole).per_sample;
  for (int64_t i = 0; i < 4; ++i) {
    data::Batch part = whole;
    part.inputs = whole.inputs.slice(0, i, i + 1);
    part.targets = whole.targets.slice(0, i, i + 1);
    part.lengths = whole.lengths.slice(0, i, i + 1);
    part.ids = {i};
    part.rows = static_cast<int64_t>(kOrders[static_cast<size_t>(i)].size());
    EXPECT_NEAR(task->loss(part).per_sample.item<double>(), of_whole[i].item<double>(), 1e-5) << i;
  }
}

// With ratio 0 the decoder receives its own choices, with 1 the correct order, and in between each
// sample one of them, as its draw says.
TEST(PointerTask, SamplesWithoutTeacherForcingReceiveTheNetworksOwnChoices) {
  const auto make = [](double ratio) {
    config::Config config = small();
    config.pointer = {.teacher_forcing = ratio, .teacher_forcing_end = ratio};
    auto task = make_task(config, {});
    const at::NoGradGuard no_grad;
    // With its initial weights the network hardly depends on what the decoder receives.
    for (const at::Tensor& weights : task->model().parameters()) weights.mul_(5);
    task->model().train();
    return task;
  };
  const auto losses = [&](double ratio) {
    return make(ratio)->loss(batch_of(kOrders, 5)).per_sample;
  };
  const at::Tensor forced = losses(1), own = losses(0);
  {
    const auto task = make(0);
    auto& network = dynamic_cast<models::PointerNetwork&>(task->model());
    const data::Batch batch = batch_of(kOrders, 5);
    const models::Sets sets{batch.inputs, batch.lengths, /*padded=*/true};
    const auto memory = network.encode(sets);
    const at::Tensor choices = network.choose(sets, memory, batch.targets);
    EXPECT_TRUE(
        at::allclose(network.losses(sets, memory, batch.targets, choices), own, 1e-5, 1e-6));
  }
  const auto differ = [&](int64_t i) {
    return std::abs(forced[i].item<double>() - own[i].item<double>()) > 1e-4;
  };
  int of_both[2] = {0, 0};  // samples whose two losses differ, by what they received
  for (const double ratio : {0.3, 0.5, 0.7}) {
    const at::Tensor mixed = losses(ratio);
    for (int64_t i = 0; i < mixed.size(0); ++i) {
      const bool is_forced_here =
          layers::is_forced(static_cast<uint64_t>(small().train.seed), 0, i, ratio);
      EXPECT_NEAR(mixed[i].item<double>(), (is_forced_here ? forced : own)[i].item<double>(), 1e-5)
          << ratio << " " << i;
      if (differ(i)) ++of_both[is_forced_here];
    }
  }
  EXPECT_GT(of_both[0], 0);
  EXPECT_GT(of_both[1], 0);
}

TEST(PointerTask, ItsMetadataRestoreIt) {
  const auto task = make_task(small(), {.features = 8, .longest = 12});
  const Metadata metadata = task->metadata();
  EXPECT_EQ(metadata.at("task"), "pointer");
  EXPECT_EQ(config_of(metadata).model.hidden, 16);
  EXPECT_EQ(facts_of(metadata).longest, 12);
}

}  // namespace
}  // namespace dtrain::tasks
