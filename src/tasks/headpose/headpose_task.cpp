// Task `headpose`: RGB image -> yaw, pitch, roll in degrees. README.md of this folder describes
// data, command and result.

#include <array>

#include "config/config.h"
#include "core/error.h"
#include "models/image_networks.h"
#include "tasks/samples.h"
#include "tasks/task.h"
#include "text/strings.h"

namespace dtrain::tasks {
namespace {

// Degrees per unit of the network's output: targets are of the order of one
constexpr double kAngleScale = 30;
constexpr float kLargestAngle = 180;  // degrees
constexpr std::array<double, 8> kEdges = {
    1, 2, 3, 5, 10, 15, 20, 30};  // degrees, between the bins of the histogram
constexpr size_t kBins = kEdges.size() + 1;

class HeadposeTask : public Task {
 public:
  HeadposeTask(const config::Config& config, const DataFacts& facts)
      : config_(config),
        angles_(catalog::row(config.task).numbers),
        facts_(facts),
        network_(models::make_network(str(config::network_of(config)),
                                      {.outputs = 3,
                                       .dropout = config::dropout_of(config),
                                       .seed = config.train.seed,
                                       .image_size = config.model.image_size,
                                       .checkpointing = config.model.checkpointing})) {
    spec_ = image_samples(config);
    spec_.target_limit = kLargestAngle;
    spec_.target_names = angles_.names;
    spec_.target_flip_sign = {-1, 1, -1};  // a mirror image reverses yaw and roll
  }

  torch::nn::Module& model() override { return *network_; }
  const data::SampleSpec& samples() const override { return spec_; }

  void check(const data::Store& store) override {
    const data::Schema& schema = schema_of(store, "headpose");
    if (schema.target != data::Field{data::Element::kFloat32, {3}} ||
        schema.input.element != data::Element::kUint8) {
      throw DataError(
          str(store.origin().path().string(),
              ": head pose needs /inputs uint8 [N, H, W, 3] and /targets float32 [N, 3]"));
    }
    check_targets(store, angles_);
  }

  Loss loss(const data::Batch& batch) override {
    return loss_of(network_->forward(batch.inputs), batch);
  }

  double planned_weight(int64_t samples) const override { return static_cast<double>(samples); }

  Counted count(const data::Batch& batch) override {
    const at::Tensor output = network_->forward(batch.inputs);
    const Loss loss = loss_of(output, batch);
    const at::Tensor degrees = output.to(at::kDouble) * kAngleScale;
    const at::Tensor error = (degrees - batch.targets.to(at::kDouble)).abs();  // [B, 3]
    const at::Tensor samples = at::full({}, batch.samples(), error.options());
    return {{{"samples", samples},
             {"loss", loss.sum().to(at::kDouble)},
             {"error", error.sum(0)},
             {"histogram", histogram(error)}},
            error.mean(1)};
  }

  Summary summarise(const Counts& totals) const override {
    const double samples = number_of(totals, "samples");
    const at::Tensor mae = count_of(totals, "error") / samples,
                     histogram = count_of(totals, "histogram");
    Summary summary;
    summary.metrics = {{"loss", number_of(totals, "loss") / samples},
                       {"mae", mae.mean().item<double>()}};
    Table table{.name = "absolute error in degrees: share of samples in %",
                .columns = {},
                .rows = {},
                .cells = {}};
    for (size_t bin = 0; bin < kBins; ++bin) {
      const bool last = bin + 1 == kBins;
      table.columns.push_back(last ? str(kEdges.back(), "+")
                                   : str(bin == 0 ? 0 : kEdges[bin - 1], "-", kEdges[bin]));
    }
    for (int64_t angle = 0; angle < 3; ++angle) {
      const std::string& name = angles_.names[static_cast<size_t>(angle)];
      summary.metrics.emplace_back("mae_" + name, mae[angle].item<double>());
      table.rows.push_back(name);
      const at::Tensor share = (histogram[angle] * (100 / samples)).contiguous();
      const double* cells = share.const_data_ptr<double>();
      table.cells.emplace_back(cells, cells + kBins);
    }
    summary.tables.push_back(std::move(table));
    return summary;
  }

  std::vector<MetricSpec> metrics() const override {
    std::vector<MetricSpec> specs = {{"loss"},
                                     primary({.name = "mae", .unit = angles_.error_unit})};
    for (const std::string& name : angles_.names)
      specs.push_back({.name = "mae_" + name, .unit = angles_.error_unit});
    return specs;
  }

  std::vector<std::string> columns() const override { return angles_.names; }

  std::vector<Row> predict(const data::Batch& batch) override {
    const at::Tensor degrees =
        (network_->forward(batch.inputs).to(at::kDouble) * kAngleScale).to(at::kCPU).contiguous();
    const double* angles = degrees.const_data_ptr<double>();
    std::vector<Row> rows;
    for (int64_t i = 0; i < batch.samples(); ++i, angles += 3)
      rows.push_back({angles[0], angles[1], angles[2]});
    return rows;
  }

  Metadata metadata() const override {
    Metadata metadata = image_metadata(spec_);
    // stored_size: raw photos are scaled twice, as those of a data file are
    metadata.merge(to_metadata(facts_));
    metadata.insert({{"task", "headpose"},
                     {"network", str(config::network_of(config_))},
                     {"outputs", join(angles_.names, ",")},
                     {catalog::row(config_.task).output_scale, fixed(kAngleScale, 1)}});
    return metadata;
  }

 private:
  // Smooth L1 on degrees ÷ 30, the mean of a sample's three angles.
  static Loss loss_of(const at::Tensor& output, const data::Batch& batch) {
    const at::Tensor given = at_least_float32(output);
    const at::Tensor target = batch.targets.to(given.scalar_type()) / kAngleScale;
    return sample_loss(at::smooth_l1_loss(given, target, at::Reduction::None, /*beta=*/1.0).sum(1) /
                       3);
  }

  // [3, kBins]: samples by angle and size of the error.
  at::Tensor histogram(const at::Tensor& error) {
    if (!edges_.defined() ||
        edges_.device() != error.device()) {  // copied once, because the copy waits for the device
      edges_ = at::tensor(at::ArrayRef<double>(kEdges), at::kDouble).to(error.device());
    }
    const at::Tensor bins =
        at::bucketize(error.contiguous(), edges_, /*out_int32=*/false, /*right=*/true);  // [B, 3]
    return at::one_hot(bins, kBins).sum(0).to(at::kDouble);
  }

  config::Config config_;
  const catalog::Numbers& angles_;
  DataFacts facts_;
  std::shared_ptr<models::Network> network_;
  data::SampleSpec spec_;
  at::Tensor edges_;  // kEdges on the device of the last batch
};

}  // namespace

std::unique_ptr<Task> make_headpose(const config::Config& config, const DataFacts& facts) {
  return std::make_unique<HeadposeTask>(config, facts);
}

}  // namespace dtrain::tasks
