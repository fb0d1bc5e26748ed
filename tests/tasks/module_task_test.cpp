// Task `module`: the arguments that forward() may take, and the loss of an evaluation.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/script.h>

#include "core/error.h"
#include "core/strings.h"
#include "dist/failure.h"
#include "support/temp_dir.h"
#include "tasks/example_store.h"
#include "tasks/module/contract.h"
#include "tasks/module/script_network.h"
#include "tasks/task.h"

namespace dtrain::tasks {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ModuleTest : public ::testing::Test {
 protected:
  // A linear layer over the mean row of [B, T, 4]; `arguments` after x.
  std::filesystem::path saved(const std::string& arguments) const {
    at::manual_seed(2);
    torch::jit::Module network("Network");
    network.register_parameter("weight", at::randn({4, 3}), /*is_buffer=*/false);
    for (at::Tensor parameter : network.parameters()) parameter.requires_grad_(true);
    network.define(
        dtrain::str("def forward(self, x", arguments, "):\n  return torch.matmul(x.mean(1), self.weight)\n"));
    const std::filesystem::path file = folder_ / "network.pt";
    network.save(file.string());
    return file;
  }
  std::vector<std::string> defects(const std::string& arguments, bool lengths) const {
    return examine(saved(arguments), {{.input = {12, 4}, .lengths = lengths}}, ModuleLoss(config::LossName::kMse))
        .defects;
  }

  // x [B, 2, 4] times a constant. Tracing turns a tensor that is neither a parameter nor a buffer into one.
  std::filesystem::path with_constant() const {
    torch::jit::Module network("Network");
    network.register_parameter("weight", at::randn({4, 3}).requires_grad_(), /*is_buffer=*/false);
    const auto graph = std::make_shared<torch::jit::Graph>();
    torch::jit::Value* self = graph->addInput("self")->setType(network.type());
    torch::jit::Value* x = graph->addInput("x");
    torch::jit::Value* weight = graph->insertGetAttr(self, "weight");
    torch::jit::Value* scaled = graph->insert(c10::aten::mul, {x, graph->insertConstant(at::ones({2, 4}))});
    graph->registerOutput(graph->insert(c10::aten::matmul, {scaled, weight}));
    network.type()->addMethod(network._ivalue()->compilation_unit()->create_function(
        c10::QualifiedName(*network.type()->name(), "forward"), graph));
    const std::filesystem::path file = folder_ / "constant.pt";
    network.save(file.string());
    return file;
  }

  const dtrain::testing::TempDir folder_;
};

TEST_F(ModuleTest, MayTakeLengthsThatHaveADefault) {
  for (const bool lengths : {false, true}) {
    EXPECT_THAT(defects(", lengths: Optional[Tensor] = None", lengths), IsEmpty()) << lengths;
  }
  EXPECT_THAT(defects(", lengths", true), IsEmpty());
}

TEST_F(ModuleTest, SaysHowManyArgumentsForwardReceives) {
  EXPECT_THAT(defects("", true), ElementsAre("forward() takes 1 arguments, but task.inputs passes 2"));
  EXPECT_THAT(defects(", a, b, c: Optional[Tensor] = None", true),
              ElementsAre("forward() takes 3 to 4 arguments, but task.inputs passes 2"));
}

TEST_F(ModuleTest, WarnsOfConstantTensorsAndRefusesThemForAGpu) {
  const std::filesystem::path file = with_constant();
  const Contract here = examine(file, {{.input = {2, 4}}}, ModuleLoss(config::LossName::kMse));
  EXPECT_THAT(here.warnings, ElementsAre(HasSubstr("a constant tensor Float [2, 4] is in the code")));
  EXPECT_THAT(here.defects, IsEmpty());
  const Contract there = examine(file, {{.input = {2, 4}, .device = at::kCUDA}}, ModuleLoss(config::LossName::kMse));
  EXPECT_THAT(there.defects, ElementsAre(HasSubstr("does not move with the module: register it as a buffer")));
}

// Whatever the machine has, and whatever the network was trained on.
TEST_F(ModuleTest, IsJudgedForTheDeviceThatTheConfigurationNames) {
  const ExampleStore store("module", {data::Element::kFloat32, {2, 4}}, {data::Element::kFloat32, {2, 3}}, 5);
  config::Config config;
  config.task = catalog::task_named("module");
  config.model.file = with_constant().string();
  config.module.inputs = config::ModuleInputs::kRows;
  config.device.type = config::DeviceType::kCpu;
  EXPECT_NO_THROW(make_task(config, {})->check(store));
  config.device.type = config::DeviceType::kCuda;
  try {
    make_task(config, {})->check(store);
    ADD_FAILURE() << "accepted for a GPU";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("does not move with the module: register it as a buffer"));
  }
}

// TorchScript's interpreter hides the type of every error.
TEST_F(ModuleTest, AFullGpuIsRecognized) {
  torch::jit::Module script("Network");
  script.register_parameter("weight", at::randn({4, 3}).requires_grad_(), /*is_buffer=*/false);
  script.define("def forward(self, x):\n  assert False, \"CUDA out of memory. Tried to allocate 2 GiB\"\n  return x\n");
  const std::filesystem::path file = folder_ / "full.pt";
  script.save(file.string());
  ScriptNetwork network(file);
  try {
    network.forward({at::ones({2, 4})});
    ADD_FAILURE() << "no error";
  } catch (const c10::Error& error) {
    EXPECT_TRUE(dist::is_out_of_memory(error)) << error.what_without_backtrace();
    EXPECT_THAT(dist::first_line(error), HasSubstr("CUDA out of memory. Tried to allocate 2 GiB"));
    EXPECT_EQ(dist::describe(std::current_exception()).exit_code, 69);
  }
}

TEST_F(ModuleTest, AnOperatorThatFailsIsNamedByItsReason) {
  ScriptNetwork network(saved(""));
  try {
    network.forward({at::ones({2, 3, 5})});
    ADD_FAILURE() << "no error";
  } catch (const c10::Error& error) {
    EXPECT_THAT(dist::first_line(error), HasSubstr("mat1 and mat2 shapes cannot be multiplied"));
    EXPECT_EQ(dist::describe(std::current_exception()).exit_code, 70);
  }
}

TEST_F(ModuleTest, TheEvaluatedLossIsWithoutSmoothing) {
  config::Config config;
  config.task = catalog::task_named("module");
  config.model.file = saved("").string();
  config.module = {.loss = config::LossName::kCrossEntropy, .inputs = config::ModuleInputs::kRows};
  data::Batch batch;
  batch.inputs = at::randn({6, 5, 4});
  batch.targets = at::tensor({0, 1, 2, 2, 1, 0}, at::kLong);
  const auto losses = [&](double smoothing) {
    config.train.label_smoothing = smoothing;
    const auto task = make_task(config, {});
    return std::pair(task->loss(batch).sum.item<double>(), number_of(task->count(batch).sums, "loss"));
  };
  const auto [plain_trained, plain] = losses(0);
  const auto [smoothed_trained, smoothed] = losses(0.3);
  EXPECT_EQ(plain, smoothed);
  EXPECT_EQ(plain, plain_trained);
  EXPECT_NE(plain, smoothed_trained);
}

}  // namespace
}  // namespace dtrain::tasks
