// Task `module`: the arguments that forward() may take, and the loss of an evaluation.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/script.h>

#include <cstring>
#include <limits>

#include "core/error.h"
#include "dist/failure.h"
#include "support/temp_dir.h"
#include "tasks/example_store.h"
#include "tasks/module/contract.h"
#include "tasks/module/script_network.h"
#include "tasks/task.h"
#include "text/strings.h"

namespace dtrain::tasks {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const ModuleLoss kMse(config::LossName::kMse);

// Rows of whole numbers from 1 to `most`, as tokens of a text are.
class TokenStore : public ExampleStore {
 public:
  TokenStore(std::vector<int64_t> row, int64_t most)
      : ExampleStore("module", {data::Element::kFloat32, std::move(row)},
                     {data::Element::kFloat32, {3}}, 9),
        most_(most) {}
  void read_input(int64_t id, std::span<std::byte> out) const override {
    std::vector<float> values(out.size() / sizeof(float));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] =
          static_cast<float>(1 + (static_cast<uint64_t>(id) + i) % static_cast<uint64_t>(most_));
    }
    std::memcpy(out.data(), values.data(), out.size());
  }

 private:
  int64_t most_;
};

class ModuleTest : public ::testing::Test {
 protected:
  // A network with weight [10, 3] and running statistics of 3 channels, whose forward(self, x)
  // is `code`.
  std::filesystem::path with_code(const std::string& code) const {
    at::manual_seed(2);
    torch::jit::Module network("Network");
    network.register_parameter("weight", at::randn({10, 3}).requires_grad_(), /*is_buffer=*/false);
    network.register_buffer("running_mean", at::zeros({3}));
    network.register_buffer("running_var", at::ones({3}));
    if (!network.hasattr("training"))
      network.register_attribute("training", c10::BoolType::get(), true);
    network.define("def forward(self, x):\n" + code);
    const std::filesystem::path file = folder_ / "network.pt";
    network.save(file.string());
    return file;
  }
  // What the task says of a network of this code and these samples.
  static std::unique_ptr<Task> checked(const std::filesystem::path& file,
                                       const data::Store& store) {
    config::Config config;
    config.task = catalog::task_named("module");
    config.model.file = file.string();
    config.module.inputs = config::ModuleInputs::kRows;
    config.device.type = config::DeviceType::kCpu;
    std::unique_ptr<Task> task = make_task(config, {});
    task->check(store);
    return task;
  }
  // A linear layer over the mean row of [B, T, 4]; `arguments` after x.
  std::filesystem::path saved(const std::string& arguments) const {
    at::manual_seed(2);
    torch::jit::Module network("Network");
    network.register_parameter("weight", at::randn({4, 3}), /*is_buffer=*/false);
    for (at::Tensor parameter : network.parameters()) parameter.requires_grad_(true);
    network.define(dtrain::str("def forward(self, x", arguments,
                               "):\n  return torch.matmul(x.mean(1), self.weight)\n"));
    const std::filesystem::path file = folder_ / "network.pt";
    network.save(file.string());
    return file;
  }
  std::vector<std::string> defects(const std::string& arguments, bool lengths) const {
    return examine(saved(arguments), {made_up({.input = {12, 4}, .lengths = lengths})}, kMse)
        .defects;
  }

  // x [B, 2, 4] times a constant. Tracing turns a tensor that is neither a parameter nor a buffer
  // into one.
  std::filesystem::path with_constant() const {
    torch::jit::Module network("Network");
    network.register_parameter("weight", at::randn({4, 3}).requires_grad_(), /*is_buffer=*/false);
    const auto graph = std::make_shared<torch::jit::Graph>();
    torch::jit::Value* self = graph->addInput("self")->setType(network.type());
    torch::jit::Value* x = graph->addInput("x");
    torch::jit::Value* weight = graph->insertGetAttr(self, "weight");
    torch::jit::Value* scaled =
        graph->insert(c10::aten::mul, {x, graph->insertConstant(at::ones({2, 4}))});
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
  EXPECT_THAT(defects("", true),
              ElementsAre("forward() takes 1 arguments, but task.inputs passes 2"));
  EXPECT_THAT(defects(", a, b, c: Optional[Tensor] = None", true),
              ElementsAre("forward() takes 3 to 4 arguments, but task.inputs passes 2"));
}

TEST_F(ModuleTest, WarnsOfConstantTensorsAndRefusesThemForAGpu) {
  const std::filesystem::path file = with_constant();
  const Contract here = examine(file, {made_up({.input = {2, 4}})}, kMse);
  EXPECT_THAT(here.warnings,
              ElementsAre(HasSubstr("a constant tensor Float [2, 4] is in the code")));
  EXPECT_THAT(here.defects, IsEmpty());
  const Contract there = examine(file, {made_up({.input = {2, 4}, .device = at::kCUDA})}, kMse);
  EXPECT_THAT(there.defects,
              ElementsAre(HasSubstr("does not move with the module: register it as a buffer")));
}

// Whatever the machine has, and whatever the network was trained on.
TEST_F(ModuleTest, IsJudgedForTheDeviceThatTheConfigurationNames) {
  const ExampleStore store("module", {data::Element::kFloat32, {2, 4}},
                           {data::Element::kFloat32, {2, 3}}, 5);
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

// Values and sizes that are made up would be wrong for all of them.
TEST_F(ModuleTest, IsTriedOnSamplesOfTheFile) {
  const auto accepts = [&](const std::string& code, const std::vector<int64_t>& row) {
    EXPECT_NO_THROW(checked(with_code(code), TokenStore(row, 9))) << code;
  };
  accepts("  return torch.embedding(self.weight, x.long()).mean(1)\n", {5});
  accepts("  return torch.one_hot(x.long(), 10).float().mean(1).matmul(self.weight)\n", {5});
  accepts(
      "  assert bool((x > 0).all()), \"log of a negative number\"\n  return "
      "torch.log(x).matmul(self.weight)\n",
      {10});
  accepts(
      "  return torch.conv1d(x.transpose(1, 2), self.weight.t().unsqueeze(1)[:, :, :1].expand(3, "
      "1, 25)).mean(2)\n",
      {60, 1});
}

TEST_F(ModuleTest, WithoutDataItIsTriedOnMoreKindsOfInputs) {
  const std::filesystem::path file =
      with_code("  return torch.embedding(self.weight, x.long()).mean(1)\n");
  const Contract tokens = examine(file, likely_trials(file, "rows", 224, 5), kMse);
  EXPECT_THAT(tokens.defects, IsEmpty());
  EXPECT_THAT(to_text(tokens), HasSubstr("for 3 made-up all-ones samples, Float [3, 12, 5]"));
  const std::filesystem::path wrong = with_code("  return x.matmul(self.weight)\n");
  EXPECT_THAT(
      examine(wrong, likely_trials(wrong, "rows", 224, 5), kMse).defects,
      ElementsAre(HasSubstr("forward or backward fails on 3 made-up samples, Float [3, 12, 5]: ")));
}

TEST_F(ModuleTest, SaysThatOneSampleIsTooFewForATrainingStep) {
  const std::string normalized = "  x = x.matmul(self.weight)\n";
  const std::string good = normalized + "  return x - x.mean(1, True)\n";
  EXPECT_THAT(examine(with_code(good), {made_up({.input = {10}})}, kMse).untrainable, IsEmpty());
  // As a script of torch.nn.BatchNorm1d does, and as a traced one, which sets running_var to 0 / 0.
  const std::string scripted = normalized +
                               "  assert not self.training or x.size(0) > 1, \"Expected more than "
                               "1 value per channel\"\n  return x\n";
  const std::string traced =
      normalized +
      "  return torch.batch_norm(x, None, None, self.running_mean, self.running_var, "
      "self.training, 0.1, 0.00001, False)\n";
  for (const auto& [code, why] : {std::pair{scripted, "Expected more than 1 value per channel"},
                                  std::pair{traced, "running_var becomes nan at [0]"}}) {
    const Contract contract = examine(with_code(code), {made_up({.input = {10}})}, kMse);
    ASSERT_EQ(contract.untrainable.size(), 1u);
    EXPECT_THAT(contract.untrainable.at(1), HasSubstr(why));
    EXPECT_THAT(to_text(contract), HasSubstr("warning     cannot be trained on 1 sample: "));
  }
}

// Batch norm without running statistics.
TEST_F(ModuleTest, SaysHowManySamplesFailInAnEvaluation) {
  const std::filesystem::path file = with_code(
      "  assert x.size(0) > 1, \"Expected more than 1 value per channel\"\n  return "
      "x.matmul(self.weight)\n");
  try {
    checked(file, TokenStore({10}, 9));
    ADD_FAILURE() << "accepted";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("forward in an evaluation fails on 1 sample, Float [1, 10]: "));
    EXPECT_THAT(error.what(), HasSubstr("Expected more than 1 value per channel"));
  }
}

TEST_F(ModuleTest, RefusesValuesThatAreNotFinite) {
  const auto defects_with = [&](const char* name, bool is_buffer) {
    torch::jit::Module network("Network");
    network.register_parameter("weight", at::ones({10, 3}).requires_grad_(), /*is_buffer=*/false);
    at::Tensor values = at::ones({10, 3});
    values[2][1] = -std::numeric_limits<float>::infinity();
    network.register_parameter(name, is_buffer ? values : values.requires_grad_(), is_buffer);
    network.define(dtrain::str(
        "def forward(self, x):\n  return torch.matmul(x, self.weight) + self.", name, "[0]\n"));
    const std::filesystem::path file = folder_ / "network.pt";
    network.save(file.string());
    return examine(file, {made_up({.input = {10}})}, kMse).defects;
  };
  EXPECT_THAT(defects_with("other", /*is_buffer=*/false),
              ElementsAre("values that are not finite: other (-inf at [2, 1])"));
  EXPECT_THAT(defects_with("running_var", /*is_buffer=*/true),
              ElementsAre("values that are not finite: running_var (-inf at [2, 1])"));
  EXPECT_THAT(defects_with("mask", /*is_buffer=*/true), IsEmpty());
}

TEST_F(ModuleTest, PassesOverSamplesThatCannotBeRead) {
  class Damaged : public TokenStore {
   public:
    using TokenStore::TokenStore;
    void read_input(int64_t id, std::span<std::byte> out) const override {
      if (id != 7) throw DataError(str("tokens#", id, ": damaged"));
      TokenStore::read_input(id, out);
    }
  };
  EXPECT_NO_THROW(checked(with_code("  return x.matmul(self.weight)\n"), Damaged({10}, 9)));
}

// TorchScript's interpreter hides the type of every error.
TEST_F(ModuleTest, AFullGpuIsRecognized) {
  torch::jit::Module script("Network");
  script.register_parameter("weight", at::randn({4, 3}).requires_grad_(), /*is_buffer=*/false);
  script.define(
      "def forward(self, x):\n  assert False, \"CUDA out of memory. Tried to allocate 2 GiB\"\n  "
      "return x\n");
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
    return std::pair(task->loss(batch).sum().item<double>(),
                     number_of(task->count(batch).sums, "loss"));
  };
  const auto [plain_trained, plain] = losses(0);
  const auto [smoothed_trained, smoothed] = losses(0.3);
  EXPECT_EQ(plain, smoothed);
  EXPECT_EQ(plain, plain_trained);
  EXPECT_NE(plain, smoothed_trained);
}

}  // namespace
}  // namespace dtrain::tasks
