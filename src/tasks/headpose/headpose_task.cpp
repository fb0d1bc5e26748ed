// Head pose: RGB image -> yaw, pitch, roll in degrees. README.md of this folder tells data, command and expected
// result.

#include "config/model_defaults.h"
#include "core/error.h"
#include "core/strings.h"
#include "models/models.h"
#include "tasks/task.h"

namespace dtrain::tasks {
namespace {

constexpr double kAngleScale = 30;  // degrees per unit of the network's output: targets are of the order of one
constexpr const char* kAngles[] = {"yaw", "pitch", "roll"};

class HeadposeTask : public Task {
 public:
  explicit HeadposeTask(const config::Config& config)
      : config_(config),
        network_(
            models::make_network(config::network_of(config),
                                 {.outputs = 3, .dropout = config::dropout_of(config), .seed = config.train.seed})) {
    spec_.image_size = config.model.image_size;
    spec_.target_flip_sign = {-1, 1, -1};  // the mirror image looks the other way and leans the other way
    spec_.hflip = config.augment.hflip;
    spec_.crop_scale = static_cast<float>(config.augment.crop_scale);
    spec_.brightness = static_cast<float>(config.augment.brightness);
    spec_.contrast = static_cast<float>(config.augment.contrast);
    spec_.saturation = static_cast<float>(config.augment.saturation);
    spec_.hue = static_cast<float>(config.augment.hue);
  }

  torch::nn::Module& model() override { return *network_; }
  const data::SampleSpec& samples() const override { return spec_; }

  void check(const data::Store& store) const override {
    const data::Schema& schema = store.schema();
    const std::string file = store.path().string();
    if (schema.task != "headpose") {
      throw DataError(str(file, " holds samples of task '", schema.task, "', not headpose"));
    }
    if (schema.target_shape != std::vector<int64_t>{3} || schema.input_shape.size() != 3 ||
        schema.input_shape[2] != 3) {
      throw DataError(str(file, ": head pose needs /inputs uint8 [N, H, W, 3] and /targets float32 [N, 3]"));
    }
    if (const auto bad = data::first_bad_target(store, -180, 180)) {
      throw DataError(str(file, "#", bad->id, ": ", kAngles[bad->element], " is ", bad->value,
                          ", not an angle within ±180 degrees (source ", store.source(bad->id), ")"));
    }
  }

  at::Tensor forward(const at::Tensor& inputs) override { return network_->forward(inputs); }

  Loss loss(const data::Batch& batch) override { return loss_of(forward(batch.inputs), batch); }

  double planned_weight(int64_t samples) const override { return static_cast<double>(samples); }

  std::vector<Metric> evaluate(const data::Batch& batch) override {
    const at::Tensor output = forward(batch.inputs);
    const Loss loss = loss_of(output, batch);
    const at::Tensor degrees = output.to(at::kDouble) * kAngleScale;
    const at::Tensor error = (degrees - batch.targets.to(at::kDouble)).abs().sum(0);  // [3]
    const at::Tensor weight = at::full({}, batch.samples(), error.options());
    std::vector<Metric> metrics = {{"loss", loss.sum.to(at::kDouble), weight}, {"mae", error.mean(), weight}};
    for (int64_t angle = 0; angle < 3; ++angle) {
      metrics.push_back({str("mae_", kAngles[angle]), error[angle], weight});
    }
    return metrics;
  }

  std::string primary_metric() const override { return "mae"; }

  std::map<std::string, std::string> metadata() const override {
    return {{"task", "headpose"},
            {"network", config::network_of(config_)},
            {"image_size", str(spec_.image_size)},
            {"outputs", "yaw,pitch,roll"},
            {"angle_scale", fixed(kAngleScale, 1)},
            {"mean", str(spec_.mean[0], ",", spec_.mean[1], ",", spec_.mean[2])},
            {"std", str(spec_.std[0], ",", spec_.std[1], ",", spec_.std[2])}};
  }

 private:
  // Smooth L1 on degrees ÷ 30, the mean of a sample's three angles; in float32 at least, whatever autocast made of the
  // output.
  static Loss loss_of(const at::Tensor& output, const data::Batch& batch) {
    const at::Tensor wide = output.scalar_type() == at::kDouble ? output : output.to(at::kFloat);
    const at::Tensor target = batch.targets.to(wide.scalar_type()) / kAngleScale;
    const at::Tensor sum = at::smooth_l1_loss(wide, target, at::Reduction::Sum, /*beta=*/1.0) / 3;
    return {sum, at::full({}, batch.samples(), wide.options().requires_grad(false))};
  }

  config::Config config_;
  std::shared_ptr<models::Network> network_;
  data::SampleSpec spec_;
};

}  // namespace

std::unique_ptr<Task> make_headpose(const config::Config& config) { return std::make_unique<HeadposeTask>(config); }

}  // namespace dtrain::tasks
