// Task `sequence`: sequences of any length -> class, learned in two phases. The encoder learns to
// reconstruct noisy, masked rows, then the classifier learns the classes. README.md of this folder
// describes data, command and result.

#include <algorithm>

#include "config/config.h"
#include "core/check.h"
#include "core/error.h"
#include "layers/cross_entropy.h"
#include "layers/masked_noise.h"
#include "models/cnn_lstm.h"
#include "tasks/confusion.h"
#include "tasks/samples.h"
#include "tasks/sequence/phases.h"
#include "tasks/task.h"
#include "text/number_text.h"
#include "text/strings.h"

namespace dtrain::tasks {
namespace {

constexpr const char* kEncoder = "encoder";
constexpr const char* kClassifier = "classifier";
constexpr const char* kTask = "sequence";
constexpr const char* kReconstruction = "reconstruction_mse";

class SequenceTask : public Task {
 public:
  SequenceTask(const config::Config& config, const DataFacts& facts)
      : config_(config),
        facts_(facts),
        network_(std::make_shared<models::CnnLstm>(
            // A file for another task may have no features or classes; check() reports that later.
            models::CnnLstmOptions{.features = std::max<int64_t>(1, facts.features),
                                   .classes = std::max<int64_t>(1, class_count()),
                                   .hidden = config.model.hidden,
                                   .dropout = config::dropout_of(config),
                                   .seed = config.train.seed})) {
    spec_ = row_samples(config);
    spec_.classes = class_count();
    enter(phase(0));
  }

  torch::nn::Module& model() override { return *network_; }
  const data::SampleSpec& samples() const override { return spec_; }

  void check(const data::Store& store) override {
    const data::Schema& schema = schema_of(store, kTask);
    const std::string file = store.origin().path().string();
    if (schema.input.element != data::Element::kFloat32 || schema.input.shape.size() != 2 ||
        schema.target != data::Field{data::Element::kInt64, {}}) {
      throw DataError(str(file,
                          ": sequence needs /inputs float32 [rows, features] of each sample and "
                          "/targets int64 [N]"));
    }
    if (schema.input.shape[1] != facts_.features) {
      throw DataError(str(file, ": rows have ", schema.input.shape[1],
                          " features; the network takes ", facts_.features,
                          ". Convert sequences of the same kind, or train a network on these"));
    }
    if (class_count() < 2) {
      throw DataError(str(file, ": ", class_count(),
                          " classes (root attribute class_names): there is nothing to tell apart"));
    }
    spec_.class_numbers = class_numbers(store, facts_.classes);
  }

  Loss loss(const data::Batch& batch) override {
    if (phase_ == kClassifier) {
      return sample_loss(layers::cross_entropy(classify(batch), batch.targets, /*weights=*/{},
                                               config_.train.label_smoothing));
    }
    return rebuild_loss(batch, draws_of(batch, config_.train.seed));
  }

  double planned_weight(int64_t samples) const override {
    const auto n = static_cast<double>(samples);
    if (phase_ == kClassifier) return n;
    const double blocks =
        std::max(1.0, facts_.mean_rows / static_cast<double>(config_.augment.mask_span));
    const double share = config_.augment.mask_share + (1 - config_.augment.mask_share) / blocks;
    return std::max(1.0, n * share * facts_.mean_rows * static_cast<double>(facts_.features));
  }

  Counted count(const data::Batch& batch) override {
    const at::Tensor logits = classify(batch);
    // Comparable between runs
    const at::Tensor losses = layers::cross_entropy(logits, batch.targets);
    // Every evaluation uses the same noise and masks.
    const Loss rebuilt =
        rebuild_loss(batch, layers::random_context(/*seed=*/0, /*step=*/0, ids_of(batch)));
    return {{{"loss", losses.sum().to(at::kDouble)},
             {"hits", hits_and_misses(batch.targets, logits.argmax(1), logits.size(1))},
             {"squared_error", rebuilt.sum().to(at::kDouble)},
             {"hidden", rebuilt.weight}},
            losses.to(at::kDouble)};
  }

  Summary summarise(const Counts& totals) const override {
    const at::Tensor& counts = count_of(totals, "hits");
    Summary summary;
    summary.metrics = {
        {"loss", number_of(totals, "loss") / samples_in(counts)},
        {"accuracy", accuracy(counts)},
        {"macro_f1", macro_f1(counts)},
        {kReconstruction, number_of(totals, "squared_error") / number_of(totals, "hidden")}};
    const std::vector<std::string> names = class_names(counts.size(1));
    summary.tables = {class_table(counts, names)};
    if (is_confusion(counts)) summary.tables.push_back(confusion_table(counts, names));
    return summary;
  }

  std::vector<MetricSpec> metrics() const override {
    return {{"loss"},
            primary(share_metric("accuracy")),
            share_metric("macro_f1"),
            {.name = kReconstruction, .unit = "squared error"}};
  }

  std::vector<std::string> columns() const override { return {"class", "probability"}; }

  std::vector<Row> predict(const data::Batch& batch) override {
    const auto [probability, best] =
        at_least_float32(classify(batch)).softmax(1).to(at::kDouble).max(1);
    const at::Tensor p = probability.to(at::kCPU).contiguous(), c = best.to(at::kCPU).contiguous();
    const std::vector<std::string> names = class_names(std::max<int64_t>(1, class_count()));
    std::vector<Row> rows;
    for (int64_t i = 0; i < batch.samples(); ++i) {
      const int64_t index = c.const_data_ptr<int64_t>()[i];
      rows.push_back({names[static_cast<size_t>(index)], p.const_data_ptr<double>()[i]});
    }
    return rows;
  }

  Metadata metadata() const override {
    Metadata metadata = to_metadata(facts_);
    metadata.insert({{"task", kTask},
                     {"network", str(config::network_of(config_))},
                     {"hidden", str(config_.model.hidden)},
                     {"noise", shortest(config_.augment.noise)},
                     {"mask_share", shortest(config_.augment.mask_share)},
                     {"mask_span", str(config_.augment.mask_span)},
                     {"outputs", "class"}});
    return metadata;
  }

  TrainingPhase phase(int64_t epoch) const override {
    if (phase_of(config_.sequence, epoch) == SequencePhase::kEncoder) {
      return {
          .name = kEncoder,
          .lr_ratio =
              [](const std::string& parameter) { return parameter.starts_with("fc.") ? 0.0 : 1.0; },
          .metrics = {kReconstruction}};
    }
    return {.name = kClassifier,
            .lr_ratio =
                [encoder = config_.sequence.encoder_lr_ratio](const std::string& parameter) {
                  if (models::CnnLstm::is_encoder(parameter)) return encoder;
                  return parameter.starts_with("fc.") ? 1.0 : 0.0;
                },
            .metrics = {"loss", "accuracy", "macro_f1"}};
  }

  std::string check_epochs(int64_t epochs, bool by_max_steps) const override {
    return dtrain::tasks::check_epochs(config_.sequence, epochs, by_max_steps);
  }

 private:
  void entered(const TrainingPhase& phase) override {
    DTRAIN_CHECK(phase.name == kEncoder || phase.name == kClassifier, "phase ", phase.name);
    phase_ = phase.name;
    network_->freeze_encoder(phase_ == kClassifier && config_.sequence.encoder_lr_ratio == 0);
  }

  int64_t class_count() const { return static_cast<int64_t>(facts_.classes.size()); }

  std::vector<std::string> class_names(int64_t count) const {
    std::vector<std::string> names = facts_.classes;
    for (auto i = static_cast<int64_t>(names.size()); i < count; ++i) names.push_back(str(i));
    return names;
  }

  at::Tensor classify(const data::Batch& batch) {
    return network_->classify(batch.inputs, batch.lengths);
  }

  // The squared error of the masked elements; the weight is their number.
  Loss rebuild_loss(const data::Batch& batch, const layers::RandomContext& draws) {
    const layers::MaskedNoise noise{.noise = static_cast<float>(config_.augment.noise),
                                    .share = static_cast<float>(config_.augment.mask_share),
                                    .span = static_cast<int32_t>(config_.augment.mask_span)};
    const layers::NoisedRows seen =
        layers::hide_and_noise(batch.inputs, batch.lengths, draws, noise);
    const at::Tensor errors =
        at::mse_loss(at_least_float32(network_->rebuild(seen.rows, batch.lengths)), batch.inputs,
                     at::Reduction::None);
    return {(errors * seen.hidden.unsqueeze(2)).sum({1, 2}),
            seen.hidden.sum(at::kDouble) * batch.inputs.size(2)};
  }

  config::Config config_;
  DataFacts facts_;
  std::shared_ptr<models::CnnLstm> network_;
  data::SampleSpec spec_;
  std::string phase_;
};

}  // namespace

std::unique_ptr<Task> make_sequence(const config::Config& config, const DataFacts& facts) {
  return std::make_unique<SequenceTask>(config, facts);
}

}  // namespace dtrain::tasks
