// Task `classify`: RGB image -> class. README.md of this folder describes data, command and result.

#include <algorithm>
#include <cmath>

#include "config/config.h"
#include "core/error.h"
#include "layers/cross_entropy.h"
#include "models/image_networks.h"
#include "tasks/classify/class_weights.h"
#include "tasks/confusion.h"
#include "tasks/samples.h"
#include "tasks/task.h"
#include "text/strings.h"

namespace dtrain::tasks {
namespace {

// Torchvision scales the shorter side to 256 and takes the center of 224
constexpr float kCentreShare = 224.0f / 256.0f;
constexpr int64_t kTop = 5;
// Means over classes, in the columns of class_table
constexpr const char* kMacro[] = {"precision", "recall", "f1"};

// Mean of a column of class_table over the classes that occur. NaN counts as 0, as in
// scikit-learn's macro average.
double macro_average(const Table& by_class, size_t column) {
  constexpr size_t kF1 = 2;
  double sum = 0, classes = 0;
  for (const std::vector<double>& row : by_class.cells) {
    if (std::isnan(row[kF1])) continue;  // the class occurs neither as a target nor as a prediction
    sum += std::isnan(row[column]) ? 0 : row[column];
    classes += 1;
  }
  return sum / classes;
}

class ClassifyTask : public Task {
 public:
  ClassifyTask(const config::Config& config, const DataFacts& facts)
      : config_(config), facts_(facts), classes_(static_cast<int64_t>(facts.classes.size())) {
    if (classes_ < 2) {
      throw DataError(str("classify needs two classes or more, and the data have ",
                          classes_ == 0 ? "none (no class_names)" : "one, " + facts.classes[0],
                          ": `dtrain convert images DIR` takes one sub-folder per class"));
    }
    const std::vector<double> weights =
        class_weights(config.train.class_weights, facts.classes, facts.class_counts);
    mean_weight_ = mean_weight(weights, facts.class_counts);
    if (config.train.class_weights != "none") class_weights_ = at::tensor(weights, at::kDouble);
    network_ = models::make_network(str(config::network_of(config)),
                                    {.outputs = classes_,
                                     .dropout = config::dropout_of(config),
                                     .seed = config.train.seed,
                                     .image_size = config.model.image_size,
                                     .checkpointing = config.model.checkpointing});
    spec_ = image_samples(config);
    spec_.classes = classes_;
    if (facts.stored_size > config.model.image_size) spec_.centre_share = kCentreShare;
  }

  torch::nn::Module& model() override { return *network_; }
  const data::SampleSpec& samples() const override { return spec_; }

  void check(const data::Store& store) override {
    const data::Schema& schema = schema_of(store, "classify");
    const std::string file = store.origin().path().string();
    if (schema.target != data::Field{data::Element::kInt64, {}} ||
        schema.input.element != data::Element::kUint8) {
      throw DataError(
          str(file, ": classify needs /inputs uint8 [N, H, W, 3] and /targets int64 [N]"));
    }
    spec_.class_numbers = class_numbers(store, facts_.classes);
  }

  Loss loss(const data::Batch& batch) override {
    const at::Tensor output = logits(batch);
    const at::Tensor& weights = weights_for(output);
    Loss loss = sample_loss(
        layers::cross_entropy(output, batch.targets, weights, config_.train.label_smoothing));
    if (weights.defined()) loss.weight = weights.index_select(0, batch.targets).sum();
    return loss;
  }

  double planned_weight(int64_t samples) const override {
    return mean_weight_ * static_cast<double>(samples);
  }

  // Counts the plain cross entropy, without smoothing and weights, which can be compared
  // between runs.
  Counted count(const data::Batch& batch) override {
    const at::Tensor output = logits(batch).to(at::kDouble), target = batch.targets;
    const at::Tensor each = layers::cross_entropy(output, target);
    Counted counted;
    counted.sums = {{"samples", at::full({}, batch.samples(), output.options())},
                    {"loss", each.sum()},
                    {"hits", hits_and_misses(target, output.argmax(1), classes_)}};
    if (has_top5()) {
      const at::Tensor best = std::get<1>(output.topk(kTop, 1));
      counted.sums.emplace_back("top5", best.eq(target.unsqueeze(1)).any(1).sum().to(at::kDouble));
    }
    counted.errors = each;
    return counted;
  }

  Summary summarise(const Counts& totals) const override {
    const double samples = number_of(totals, "samples");
    const at::Tensor& counts = count_of(totals, "hits");
    Table by_class = class_table(counts, facts_.classes);
    Summary summary;
    summary.metrics = {{"loss", number_of(totals, "loss") / samples}, {"top1", accuracy(counts)}};
    if (has_top5()) summary.metrics.emplace_back("top5", number_of(totals, "top5") / samples);
    for (size_t i = 0; i < std::size(kMacro); ++i)
      summary.metrics.emplace_back(kMacro[i], macro_average(by_class, i));
    summary.tables.push_back(std::move(by_class));
    if (is_confusion(counts)) summary.tables.push_back(confusion_table(counts, facts_.classes));
    return summary;
  }

  std::vector<MetricSpec> metrics() const override {
    std::vector<MetricSpec> specs = {{"loss"}, primary(share_metric("top1"))};
    if (has_top5()) specs.push_back(share_metric("top5"));
    for (const char* name : kMacro) specs.push_back(share_metric(name));
    return specs;
  }

  std::vector<std::string> columns() const override {
    return {"class", "probability", "top_classes", "top_probabilities"};
  }

  std::vector<Row> predict(const data::Batch& batch) override {
    const int64_t top = std::min(kTop, classes_);
    const auto [probability, number] =
        at_least_float32(logits(batch)).softmax(1).to(at::kDouble).topk(top, 1);
    const at::Tensor shares = probability.to(at::kCPU).contiguous(),
                     classes = number.to(at::kCPU).contiguous();
    const double* share = shares.const_data_ptr<double>();
    const int64_t* first = classes.const_data_ptr<int64_t>();
    std::vector<Row> rows;
    for (int64_t i = 0; i < batch.samples(); ++i, share += top, first += top) {
      std::vector<std::string> names;
      for (int64_t rank = 0; rank < top; ++rank)
        names.push_back(facts_.classes[static_cast<size_t>(first[rank])]);
      const std::string best = names.front();
      rows.push_back({best, *share, std::move(names), std::vector<double>(share, share + top)});
    }
    return rows;
  }

  Metadata metadata() const override {
    Metadata metadata = to_metadata(facts_);
    metadata.merge(Metadata{{"task", "classify"},
                            {"network", str(config::network_of(config_))},
                            {"outputs", "logits"}});
    metadata.merge(image_metadata(spec_));
    return metadata;
  }

 private:
  // Copied to the device once, because the copy waits for the device.
  const at::Tensor& weights_for(const at::Tensor& output) {
    if (class_weights_.defined())
      class_weights_ = class_weights_.to(output.device(), layers::loss_type(output));
    return class_weights_;
  }

  bool has_top5() const { return classes_ > kTop; }  // with five classes it is always 1

  at::Tensor logits(const data::Batch& batch) {
    return network_->forward(batch.inputs);
  }  // [B, classes]

  config::Config config_;
  DataFacts facts_;
  int64_t classes_;
  double mean_weight_ = 1;
  at::Tensor class_weights_;  // float64 [classes]; undefined: all 1
  std::shared_ptr<models::Network> network_;
  data::SampleSpec spec_;
};

}  // namespace

std::unique_ptr<Task> make_classify(const config::Config& config, const DataFacts& facts) {
  return std::make_unique<ClassifyTask>(config, facts);
}

}  // namespace dtrain::tasks
