#include "job/single_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>

#include <limits>
#include <numeric>

#include "catalog/catalog.h"
#include "core/error.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "tasks/example_store.h"
#include "tasks/module/script_network.h"
#include "text/strings.h"

namespace dtrain::job {
namespace {

using dtrain::testing::expect_error;
using ::testing::HasSubstr;

// What a network does to rows [B, 5] before its linear layer, in TorchScript.
constexpr const char* kPlain = "pass";
constexpr const char* kRaises =
    "if self.training and x.size(0) == 1:\n"
    "      assert False, \"Expected more than 1 value per channel when training\"";
// As torch.jit.trace() writes batch norm: without the check of torch.nn.functional.
constexpr const char* kTraced =
    "x = torch.batch_norm(x, None, None, self.mean, self.variance, self.training, 0.1, 1e-05, "
    "False)";
constexpr const char* kStandardDeviation = "x = x / (torch.std(x, [0]) + 1)";
constexpr const char* kMasked =
    "x = torch.batch_norm(x + torch.exp(self.mask), None, None, self.mean, self.variance, "
    "self.training, 0.1, 1e-05, "
    "False)";
constexpr const char* kAlwaysFails = "assert False, \"out of range\"";
constexpr const char* kCounts =
    "self.steps = self.steps + 1\n    self.scale = self.scale + 1\n    x = x * self.scale";
constexpr const char* kRandom = "x = torch.dropout(x, 0.5, self.training)\n    self.mean.add_(1)";

// Its GPU fails in forward, and afterwards nothing can be copied to a buffer either.
class OnFailedGpu : public tasks::Task {
 public:
  explicit OnFailedGpu(tasks::Task& task) : task_(task) {}
  torch::nn::Module& model() override { return task_.model(); }
  const data::SampleSpec& samples() const override { return task_.samples(); }
  void check(const data::Store&) override {}
  tasks::Loss loss(const data::Batch&) override {
    for (at::Tensor& buffer : model().buffers()) buffer.resize_({0});
    throw c10::AcceleratorError({"f", "x.cpp", 1}, 700,
                                "CUDA error: an illegal memory access was encountered");
  }
  double planned_weight(int64_t) const override { return 1; }
  tasks::Counted count(const data::Batch&) override { return {}; }
  tasks::Summary summarise(const tasks::Counts&) const override { return {}; }
  std::vector<tasks::MetricSpec> metrics() const override { return {}; }
  std::vector<std::string> columns() const override { return {}; }
  std::vector<tasks::Row> predict(const data::Batch&) override { return {}; }
  tasks::Metadata metadata() const override { return {}; }

 private:
  tasks::Task& task_;
};

class SingleSamplesTest : public ::testing::Test {
 protected:
  std::string saved(const std::string& code) {
    torch::jit::Module network("Network");
    network.register_attribute("training", c10::BoolType::get(), true);
    network.register_parameter("weight", at::ones({5, 2}).requires_grad_(), /*is_buffer=*/false);
    network.register_attribute("steps", c10::IntType::get(), 0);
    network.register_buffer("scale", at::ones({}));
    network.register_buffer("mean", at::zeros({5}));
    network.register_buffer("variance", at::ones({5}));
    // As of an attention
    network.register_buffer("mask", at::full({5}, -std::numeric_limits<float>::infinity()));
    network.define("def forward(self, x):\n    " + code +
                   "\n    return torch.matmul(x, self.weight)\n");
    network.save((folder_ / "net.pt").string());
    return (folder_ / "net.pt").string();
  }

  void open(data::Field input, data::Field target, int64_t samples) {
    data_.store = std::make_unique<tasks::ExampleStore>(str(config_.task), std::move(input),
                                                        std::move(target), samples);
    data_.splits.train.resize(static_cast<size_t>(samples));
    std::iota(data_.splits.train.begin(), data_.splits.train.end(), 0);
    task_ = tasks::make_task(config_, tasks::facts_of(*data_.store, data_.splits.train));
  }

  void make_module(const std::string& code, int64_t samples = 52) {
    config_.task = catalog::task_named("module");
    config_.module.inputs = config::ModuleInputs::kRows;
    config_.module.loss = config::LossName::kMse;
    config_.model.file = saved(code);
    open({data::Element::kFloat32, {5}}, {data::Element::kFloat32, {2}}, samples);
  }

  SingleSampleTraining training(int64_t ranks = 1) {
    const auto samples = static_cast<int64_t>(data_.splits.train.size());
    return {.config = config_,
            .data = data_,
            .batches = train::batch_arithmetic(config_.train, ranks, samples)};
  }

  std::string defect(const std::string& code) {
    make_module(code);
    return single_sample_defect(*task_, training());
  }

  std::string check(int64_t ranks = 1) { return check_single_samples(*task_, training(ranks)); }

  dtrain::testing::TempDir folder_;
  config::Config config_;
  DataSet data_;
  std::unique_ptr<tasks::Task> task_;
};

TEST_F(SingleSamplesTest, FindsWhatFailsWithOneSampleAlone) {
  EXPECT_EQ(defect(kPlain), "");
  EXPECT_THAT(defect(kRaises), HasSubstr("Expected more than 1 value per channel when training"));
  EXPECT_EQ(defect(kTraced), "its buffer 'variance' is not finite afterwards");
  EXPECT_EQ(defect(kMasked), "its buffer 'variance' is not finite afterwards")
      << "whatever the mask is";
  EXPECT_EQ(defect(kStandardDeviation), "its loss is not finite");
  EXPECT_EQ(defect(kAlwaysFails), "") << "that does not depend on one sample";
}

TEST_F(SingleSamplesTest, TheTrialLeavesNoTrace) {
  make_module(kRandom);
  const at::Tensor random = at::globalContext().defaultGenerator(at::kCPU).get_state();
  EXPECT_EQ(single_sample_defect(*task_, training()), "");
  EXPECT_TRUE(at::equal(at::globalContext().defaultGenerator(at::kCPU).get_state(), random));
  for (const auto& buffer : task_->model().named_buffers()) {
    if (buffer.key() != "mean") continue;
    EXPECT_TRUE(at::equal(buffer.value(), at::zeros({5})));
  }
  for (const at::Tensor& parameter : task_->model().parameters())
    EXPECT_FALSE(parameter.grad().defined());
}

// An assignment gives the script another value or tensor, which the module's list of buffers does
// not know.
TEST_F(SingleSamplesTest, TheTrialLeavesTheAttributesOfAScript) {
  make_module(kCounts);
  EXPECT_EQ(single_sample_defect(*task_, training()), "");
  const auto* network = dynamic_cast<const tasks::ScriptNetwork*>(&task_->model());
  ASSERT_NE(network, nullptr);
  EXPECT_EQ(network->script().attr("steps").toInt(), 0);
  EXPECT_EQ(network->script().attr("scale").toTensor().item<float>(), 1);
}

TEST_F(SingleSamplesTest, AnErrorNamesTheBatchSizesThatAvoidIt) {
  make_module(kRaises);
  config_.train.batch_size = 17;
  expect_error<ConfigError>(
      [&] { check(); }, {"net.pt cannot train on a micro-batch of one sample: ",
                         "The last step of each epoch has one (global batch 17 = 1 rank × 17 × "
                         "accumulate 1; 4 steps per epoch of "
                         "52 samples, the last one with 1): use --batch-size 15, 16, 18 or 19"});
  for (const int64_t size : {15, 16, 18, 19}) {
    config_.train.batch_size = size;
    EXPECT_NO_THROW(check()) << size;
  }
  config_.train.batch_size = 5;
  EXPECT_NO_THROW(check(/*ranks=*/2)) << "one rank has the two samples that are left";
  config_.train.batch_size = 1;
  expect_error<ConfigError>([&] { check(); }, {"Each step has one", "use --batch-size 2 or 4"});
  config_.train.batch_size = config_.train.global_batch = 17;
  SingleSampleTraining resumed = training();
  resumed.resumed = true;
  expect_error<ConfigError>([&] { check_single_samples(*task_, resumed); },
                            {"start a new run with --train.global_batch 15, 16, 18 or 19"});
  make_module(kPlain);
  EXPECT_NO_THROW(check()) << "a network that trains on one sample";
}

TEST_F(SingleSamplesTest, PairsThatBadSamplesMayHalveGiveAWarning) {
  make_module(kRaises);
  config_.train.batch_size = 2;
  EXPECT_EQ(check(), "") << "a bad sample ends the run anyway";
  config_.data.on_bad_sample = config::OnBadSample::kSkip;
  EXPECT_THAT(check(), HasSubstr("net.pt cannot train on one sample: "));
  EXPECT_THAT(check(),
              HasSubstr("if data.on_bad_sample skip leaves one of them out, the run ends"));
  config_.train.batch_size = 4;
  EXPECT_EQ(check(), "");
  make_module(kPlain);
  config_.train.batch_size = 2;
  EXPECT_EQ(check(), "");
}

TEST_F(SingleSamplesTest, TheShortestSampleIsTried) {
  config_.task = catalog::task_named("module");
  config_.module.inputs = config::ModuleInputs::kRows;
  config_.module.loss = config::LossName::kMse;
  config_.model.file =
      saved("if x.numel() <= 15:\n      assert False, \"too short\"\n    x = torch.mean(x, [1])");
  open({data::Element::kFloat32, {data::kVariable, 5}}, {data::Element::kFloat32, {2}}, 52);
  EXPECT_THAT(single_sample_defect(*task_, training()), HasSubstr("too short"))
      << "three rows of five numbers";
}

// The last batch norms of resnet18 have one value per channel in a picture of 32 pixels. Behind a
// larger batch they accept it.
TEST_F(SingleSamplesTest, NetworksOfOursFailWithTheirFirstBatchAlone) {
  config_.model.name = catalog::network_named("resnet18");
  config_.model.image_size = 32;
  config_.train.batch_size = 1;
  const auto open_pictures = [&] {
    open({data::Element::kUint8, {32, 32, 3}}, {data::Element::kFloat32, {3}}, 9);
  };
  open_pictures();
  expect_error<ConfigError>(
      [&] { check(); },
      {"the network cannot train on a micro-batch of one sample: batch norm cannot train on "
       "one value per channel",
       "Each step has one", "use --batch-size 3 or 5"});
  for (const auto& buffer : task_->model().named_buffers()) {
    if (!buffer.key().ends_with("running_mean")) continue;
    EXPECT_TRUE(at::equal(buffer.value(), at::zeros_like(buffer.value()))) << buffer.key();
  }
  config_.train.batch_size = 4;
  EXPECT_NO_THROW(check()) << "the ninth sample alone";
  config_.train.batch_size = 1;
  config_.train.sync_batch_norm = true;
  EXPECT_NO_THROW(check(/*ranks=*/2)) << "two values over both ranks";
  config_.train.sync_batch_norm = false;
  config_.train.freeze_batch_norm = true;
  EXPECT_NO_THROW(check());
}

TEST_F(SingleSamplesTest, AFailedGpuIsNoDefectOfTheNetwork) {
  config_.model.name = catalog::network_named("resnet18");
  config_.model.image_size = 32;
  open({data::Element::kUint8, {32, 32, 3}}, {data::Element::kFloat32, {3}}, 9);
  OnFailedGpu task(*task_);
  EXPECT_THROW(single_sample_defect(task, training()), c10::AcceleratorError);
}

}  // namespace
}  // namespace dtrain::job
