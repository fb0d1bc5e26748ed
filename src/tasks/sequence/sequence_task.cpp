// Sequences of any length -> class, learned in two phases: the encoder rebuilds what was noised and hidden, then the
// classifier learns the classes. README.md of this folder tells data, command and expected result.

#include <algorithm>

#include "config/model_defaults.h"
#include "core/check.h"
#include "core/error.h"
#include "core/number_text.h"
#include "core/strings.h"
#include "layers/dropout.h"
#include "layers/masked_noise.h"
#include "models/cnn_lstm.h"
#include "tasks/class_check.h"
#include "tasks/confusion.h"
#include "tasks/sequence/phases.h"
#include "tasks/task.h"
#include "tasks/wide.h"

namespace dtrain::tasks {
namespace {

constexpr const char* kEncoder = "encoder";
constexpr const char* kClassifier = "classifier";
constexpr const char* kTask = "sequence";

class SequenceTask : public Task {
 public:
  SequenceTask(const config::Config& config, const DataFacts& facts)
      : config_(config),
        facts_(facts),
        network_(std::make_shared<models::CnnLstm>(
            // A file that is not for this task has neither features nor classes: check() says so.
            models::CnnLstmOptions{.features = std::max<int64_t>(1, facts.features),
                                   .classes = std::max<int64_t>(1, class_count()),
                                   .hidden = config.model.hidden,
                                   .dropout = config::dropout_of(config),
                                   .seed = config.train.seed})) {
    spec_.kind = data::SampleSpec::Kind::kRows;
    spec_.length_window = config.data.length_window;
    spec_.classes = class_count();
    enter_phase(phase(0));
  }

  torch::nn::Module& model() override { return *network_; }
  const data::SampleSpec& samples() const override { return spec_; }

  void check(const data::Store& store) override {
    const data::Schema& schema = store.schema();
    const std::string file = store.path().string();
    if (schema.task != kTask) throw DataError(str(file, " holds samples of task '", schema.task, "', not sequence"));
    if (schema.input.element != data::Element::kFloat32 || schema.input.shape.size() != 2 ||
        schema.target != data::Field{data::Element::kInt64, {}}) {
      throw DataError(
          str(file, ": sequence needs /inputs float32 [rows, features] of each sample and /targets int64 [N]"));
    }
    if (schema.input.shape[1] != facts_.features) {
      throw DataError(str(file, ": rows have ", schema.input.shape[1], " features; the network takes ", facts_.features,
                          ". Convert sequences of the same kind, or train a network on these"));
    }
    if (class_count() < 2) {
      throw DataError(
          str(file, ": ", class_count(), " classes (root attribute class_names): there is nothing to tell apart"));
    }
    check_class_names(store, facts_.classes);
  }

  Loss loss(const data::Batch& batch) override {
    if (phase_ == kClassifier) return class_loss(classify(batch), batch.targets, config_.train.label_smoothing);
    return rebuild_loss(batch, {.seed = config_.train.seed, .epoch = batch.epoch});
  }

  double planned_weight(int64_t samples) const override {
    const auto n = static_cast<double>(samples);
    if (phase_ == kClassifier) return n;
    const double blocks = std::max(1.0, facts_.mean_rows / static_cast<double>(config_.augment.mask_span));
    const double share = config_.augment.mask_share + (1 - config_.augment.mask_share) / blocks;
    return std::max(1.0, n * share * facts_.mean_rows * static_cast<double>(facts_.features));
  }

  Counted count(const data::Batch& batch) override {
    const at::Tensor logits = classify(batch);
    const Loss loss = class_loss(logits, batch.targets, /*label_smoothing=*/0);  // comparable between runs
    // The same noise and masks for every evaluation.
    const Loss rebuilt = rebuild_loss(batch, {.seed = 0, .epoch = 0});
    return {{{"loss", loss.sum.to(at::kDouble)},
             {"hits", hits_and_misses(batch.targets, logits.argmax(1), logits.size(1))},
             {"squared_error", rebuilt.sum.to(at::kDouble)},
             {"hidden", rebuilt.weight.to(at::kDouble)}},
            loss.per_sample.to(at::kDouble)};
  }

  Summary summarise(const Counts& totals) const override {
    const at::Tensor& counts = totals[1].second;
    Summary summary;
    summary.metrics = {{"loss", totals[0].second.item<double>() / samples_in(counts)},
                       {"accuracy", accuracy(counts)},
                       {"macro_f1", macro_f1(counts)},
                       {"reconstruction_mse", totals[2].second.item<double>() / totals[3].second.item<double>()}};
    const std::vector<std::string> names = class_names(counts.size(1));
    summary.tables = {class_table(counts, names)};
    if (is_confusion(counts)) summary.tables.push_back(confusion_table(counts, names));
    return summary;
  }

  std::vector<MetricSpec> metrics() const override {
    return {{"loss"},
            share_metric("accuracy"),
            share_metric("macro_f1"),
            {.name = "reconstruction_mse", .unit = "squared error"}};
  }

  std::vector<std::string> columns() const override { return {"class", "probability"}; }

  std::vector<Row> predict(const data::Batch& batch) override {
    const auto [probability, best] = wide(classify(batch)).softmax(1).to(at::kDouble).max(1);
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

  std::string phase(int64_t epoch) const override {
    return phase_of(config_.sequence, epoch) == SequencePhase::kEncoder ? kEncoder : kClassifier;
  }

  bool trains(const std::string& metric) const override {
    return (metric == "reconstruction_mse") == (phase_ == kEncoder);
  }

  std::string check_epochs(int64_t epochs, bool by_max_steps) const override {
    const config::Sequence& s = config_.sequence;
    const int64_t iterations = std::max<int64_t>(1, s.iterations);
    const int64_t needed = iterations * (s.encoder_epochs + s.classifier_epochs);
    const std::string sum =
        str(iterations == 1 ? "one iteration" : str(iterations, " iterations"), " of ", s.encoder_epochs, " + ",
            s.classifier_epochs, " epochs ", iterations == 1 ? "needs " : "need ", needed, " epochs; ",
            by_max_steps ? "train.max_steps ends the training in epoch " : "train.epochs is ", epochs);
    if (by_max_steps && epochs <= s.encoder_epochs) {
      return sum +
             ": the classifier is not trained at all. Use more --train.max_steps, or fewer "
             "--sequence.encoder_epochs";
    }
    if (epochs <= s.encoder_epochs) {
      throw ConfigError(str(sum,
                            ": the classifier would never be trained. Use more --train.epochs, or fewer "
                            "--sequence.encoder_epochs and --sequence.classifier_epochs"));
    }
    if (s.iterations == 0 || epochs >= needed) return "";
    return str(sum, ": training ends before the last iteration. Use more --train.",
               by_max_steps ? "max_steps" : "epochs", ", or fewer --sequence.iterations");
  }

  void enter_phase(const std::string& phase) override {
    DTRAIN_CHECK(phase == kEncoder || phase == kClassifier, "phase ", phase);
    phase_ = phase;
    const bool encoder = phase == kEncoder;
    network_->freeze_encoder(!encoder && config_.sequence.encoder_lr_ratio == 0);
    for (auto& item : network_->named_parameters()) {
      if (!models::CnnLstm::is_encoder(item.key())) {
        item.value().set_requires_grad(encoder == item.key().starts_with("reconstruct."));
      }
    }
  }

  double lr_ratio(const std::string& parameter) const override {
    return phase_ == kClassifier && models::CnnLstm::is_encoder(parameter) ? config_.sequence.encoder_lr_ratio : 1;
  }

 private:
  int64_t class_count() const { return static_cast<int64_t>(facts_.classes.size()); }

  std::vector<std::string> class_names(int64_t count) const {
    std::vector<std::string> names = facts_.classes;
    for (auto i = static_cast<int64_t>(names.size()); i < count; ++i) names.push_back(str(i));
    return names;
  }

  at::Tensor classify(const data::Batch& batch) { return network_->classify(batch.inputs, batch.lengths); }

  static Loss class_loss(const at::Tensor& logits, const at::Tensor& targets, double label_smoothing) {
    const at::Tensor each = at::cross_entropy_loss(wide(logits), targets, {}, at::Reduction::None,
                                                   /*ignore_index=*/-100, label_smoothing);
    return {each.sum(), at::full({}, each.numel(), each.options().requires_grad(false)), each.detach()};
  }

  // The squared error of what was hidden, all features of a hidden row; weight: their number.
  Loss rebuild_loss(const data::Batch& batch, layers::MaskedNoise noise) {
    noise.noise = static_cast<float>(config_.augment.noise);
    noise.share = static_cast<float>(config_.augment.mask_share);
    noise.span = static_cast<int32_t>(config_.augment.mask_span);
    const layers::NoisedRows seen = layers::hide_and_noise(batch.inputs, batch.lengths, ids_of(batch), noise);
    const at::Tensor error = wide(network_->rebuild(seen.rows, batch.lengths)) - batch.inputs;
    const at::Tensor each = (error * error * seen.hidden.unsqueeze(2)).sum({1, 2});
    return {each.sum(), (seen.hidden.sum() * batch.inputs.size(2)).to(each.scalar_type()), each.detach()};
  }

  static at::Tensor ids_of(const data::Batch& batch) {
    const layers::RandomContext* random = layers::current_random_context();  // has them on the device already
    return random != nullptr ? random->sample_ids : layers::ids_on(batch.inputs.device(), batch.ids);
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
