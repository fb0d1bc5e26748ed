// Task headpose: the metrics of known errors.

#include <gmock/gmock.h>

#include "core/error.h"
#include "support/expect_error.h"
#include "tasks/example_store.h"
#include "tasks/task.h"

namespace dtrain::tasks {
namespace {

using ::testing::ElementsAre;

config::Config small_config() {
  config::Config config;
  config.task = catalog::task_named("headpose");
  config.model.image_size = 32;
  return config;
}

TEST(Headpose, CountsErrorsByAngleAndSize) {
  const auto task = make_task(small_config(), {});
  task->model().eval();
  at::manual_seed(1);
  data::Batch batch;
  batch.inputs = at::randn({3, 3, 32, 32});
  batch.ids = {0, 1, 2};
  const std::vector<Row> rows = task->predict(batch);
  EXPECT_THAT(task->columns(), ElementsAre("yaw", "pitch", "roll"));
  // Degrees off: sample by sample, yaw, pitch, roll.
  const double off[3][3] = {{0.5, 4, 40}, {2.5, -4, 0.1}, {-12, 25, 0.2}};
  batch.targets = at::empty({3, 3}, at::kDouble);
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t k = 0; k < 3; ++k)
      batch.targets[i][k] =
          std::get<double>(rows[static_cast<size_t>(i)][static_cast<size_t>(k)]) + off[i][k];
  }
  const at::NoGradGuard no_grad;
  const Counted counted = task->count(batch);
  const double* errors = counted.errors.const_data_ptr<double>();
  EXPECT_NEAR(errors[0], 44.5 / 3, 1e-4);
  EXPECT_NEAR(errors[1], 6.6 / 3, 1e-4);
  EXPECT_NEAR(errors[2], 37.2 / 3, 1e-4);

  const Summary summary = task->summarise(counted.sums);
  const std::map<std::string, double> metrics(summary.metrics.begin(), summary.metrics.end());
  EXPECT_NEAR(metrics.at("mae_yaw"), 5, 1e-4);
  EXPECT_NEAR(metrics.at("mae_pitch"), 11, 1e-4);
  EXPECT_NEAR(metrics.at("mae_roll"), 40.3 / 3, 1e-4);
  EXPECT_NEAR(metrics.at("mae"), (5 + 11 + 40.3 / 3) / 3, 1e-4);
  ASSERT_EQ(summary.tables.size(), 1u);
  const Table& table = summary.tables[0];
  EXPECT_THAT(table.columns,
              ElementsAre("0-1", "1-2", "2-3", "3-5", "5-10", "10-15", "15-20", "20-30", "30+"));
  EXPECT_THAT(table.rows, ElementsAre("yaw", "pitch", "roll"));
  const double third = 100.0 / 3;
  const auto near = [](double value) { return ::testing::DoubleNear(value, 1e-9); };
  EXPECT_THAT(table.cells[0], ElementsAre(near(third), 0, near(third), 0, 0, near(third), 0, 0, 0));
  EXPECT_THAT(table.cells[1], ElementsAre(0, 0, 0, near(2 * third), 0, 0, 0, near(third), 0));
  EXPECT_THAT(table.cells[2], ElementsAre(near(2 * third), 0, 0, 0, 0, 0, 0, 0, near(third)));
}

TEST(Headpose, CropsWithTheRatioOfTheConfiguration) {
  config::Config config = small_config();
  EXPECT_EQ(make_task(config, {})->samples().crop_ratio, 1);
  config.augment.crop_ratio = 1.5;
  EXPECT_EQ(make_task(config, {})->samples().crop_ratio, 1.5f);
}

TEST(Headpose, RefusesTargetsOfAnotherOrderOrUnit) {
  const auto task = make_task(small_config(), {});
  ExampleStore store("headpose", {data::Element::kUint8, {36, 32, 3}},
                     {data::Element::kFloat32, {3}}, 4);
  EXPECT_NO_THROW(task->check(store));
  store.attributes = {{"target_names", "yaw,pitch,roll"}, {"target_unit", "degree"}};
  EXPECT_NO_THROW(task->check(store));
  store.attributes["target_unit"] = "radian";
  testing::expect_error<DataError>([&] { task->check(store); },
                                   {"example.h5", "`target_unit`", "radian", "degree"});
  store.attributes = {{"target_names", "pitch,yaw,roll"}};
  testing::expect_error<DataError>([&] { task->check(store); },
                                   {"`target_names`", "pitch,yaw,roll"});
}

TEST(Headpose, TrainsEveryNetworkOfTheTable) {
  for (const char* name : {"headpose_cnn", "mobilenet_v2", "resnet18", "resnet50"}) {
    config::Config config = small_config();
    config.model.name = catalog::network_named(name);
    const auto task = make_task(config, {});
    EXPECT_EQ(task->metadata().at("network"), name);
    EXPECT_EQ(task->model().parameters().back().sizes(), at::IntArrayRef({3})) << name;
  }
}

}  // namespace
}  // namespace dtrain::tasks
