// Task `module`: a TorchScript file from the user, with its loss and its inputs by name. README.md
// of this folder says what such a file needs.

#include "core/error.h"
#include "core/hash.h"
#include "core/log.h"
#include "device/device.h"
#include "tasks/module/contract.h"
#include "tasks/samples.h"
#include "tasks/task.h"
#include "text/strings.h"

namespace dtrain::tasks {
namespace {

class ModuleTask : public Task {
 public:
  ModuleTask(const config::Config& config, const DataFacts& facts)
      : config_(config),
        facts_(facts),
        loss_(config.module.loss, config.train.label_smoothing),
        plain_loss_(config.module.loss) {
    if (config.model.file.empty())
      throw ConfigError("model.file: is empty; task module needs --model.file FILE.pt");
    for (const auto& [on, key] :
         {std::pair{config.train.freeze_batch_norm, "train.freeze_batch_norm"},
          std::pair{config.train.sync_batch_norm, "train.sync_batch_norm"},
          std::pair{config.model.checkpointing, "model.checkpointing"}}) {
      if (on)
        throw ConfigError(
            str(key, ": has no effect inside a TorchScript file; do not set it for task module"));
    }
    network_ = std::make_shared<ScriptNetwork>(config.model.file);
    sha256_ = sha256_hex_of_file(config.model.file);
    spec_ = images() ? image_samples(config) : row_samples(config);
    // Only a class is known to be the same in a mirror image.
    spec_.hflip = spec_.hflip && (loss_.classifies() || loss_.binary());
  }

  torch::nn::Module& model() override { return *network_; }
  const data::SampleSpec& samples() const override { return spec_; }

  void check(const data::Store& store) override {
    const data::Field& input = store.schema().input;
    const std::string file = store.origin().path().string();
    if (images() != (input.element == data::Element::kUint8)) {
      throw DataError(str(file, " holds ", images() ? "rows" : "images", ", but task.inputs is ",
                          config_.module.inputs, ": set --task.inputs ",
                          images() ? "rows" : "image"));
    }
    if (store.schema().target.variable() && !loss_.classifies()) {
      throw DataError(
          str(file, ": the number of targets differs from sample to sample, and task.loss ",
              loss_.name(), " would count the padding. Use cross_entropy or nll, which do not"));
    }
    const Contract contract = examine(config_.model.file, {trial_on(store)}, loss_);
    for (const std::string& warning : contract.warnings)
      log::info(config_.model.file + ": " + warning);
    if (!contract.defects.empty()) {
      throw DataError(str(config_.model.file, " cannot be trained on ", file, ":\n  ",
                          join(contract.defects, "\n  ")));
    }
    // Where the number of targets differs, the number of classes may differ as well (positions in
    // a set).
    spec_.classes = store.schema().target.variable() ? 0 : contract.classes;
    spec_.class_numbers.clear();
    if (loss_.classifies() && !facts_.classes.empty() &&
        !data::class_names(store.origin()).empty()) {
      spec_.class_numbers = class_numbers(store, facts_.classes);
    }
  }

  Loss loss(const data::Batch& batch) override { return loss_(forward(batch), batch.targets); }

  double planned_weight(int64_t samples) const override { return static_cast<double>(samples); }

  Counted count(const data::Batch& batch) override {
    const at::Tensor output = forward(batch);
    const Loss loss = plain_loss_(output, batch.targets);
    // A number of the host is added without a wait.
    const at::Tensor weight = at::zeros({}, output.options().dtype(at::kDouble)).add_(loss.weight);
    return {{{"weight", weight},
             {"loss", loss.sum().to(at::kDouble)},
             {loss_.metric().name, loss_.measure(output, batch.targets)}},
            loss.per_sample.to(at::kDouble)};
  }

  Summary summarise(const Counts& totals) const override {
    const double weight = number_of(totals, "weight");
    const std::string measure = loss_.metric().name;
    return {{{"loss", number_of(totals, "loss") / weight},
             {measure, number_of(totals, measure) / weight}},
            {}};
  }

  std::vector<MetricSpec> metrics() const override { return {{"loss"}, primary(loss_.metric())}; }

  std::vector<std::string> columns() const override {
    if (loss_.classifies()) return {"class", "probability"};
    return {loss_.binary() ? "probability" : "output"};
  }

  std::vector<Row> predict(const data::Batch& batch) override {
    at::Tensor output = forward(batch).to(at::kDouble);
    if (loss_.classifies())
      return class_rows(loss_.name() == config::LossName::kNll ? output.exp() : output.softmax(1));
    if (loss_.binary()) output = output.sigmoid();
    std::vector<Row> rows;
    for (const std::vector<double>& elements : per_sample<double>(output))
      rows.push_back({one_or_all(elements)});
    return rows;
  }

  Metadata metadata() const override {
    Metadata metadata = to_metadata(facts_);
    metadata.insert({{"task", "module"},
                     {"network", "torchscript"},
                     {"module_file", config_.model.file},
                     {"module_sha256", sha256_},
                     {"loss", str(loss_.name())},
                     {"inputs", str(config_.module.inputs)}});
    if (images()) metadata.merge(image_metadata(spec_));
    return metadata;
  }

 private:
  void entered(const TrainingPhase&) override {
    const std::vector<std::string> random = random_operations(*network_);
    if (random.empty() || said_) return;
    said_ = true;
    log::info(str(config_.model.file, " draws its own random numbers (", join(random, ", "),
                  "): unlike with built-in networks, they depend on the number of ranks"));
  }

  bool images() const { return config_.module.inputs == config::ModuleInputs::kImage; }

  bool takes_lengths() const {
    return config_.module.inputs == config::ModuleInputs::kRowsAndLengths;
  }

  at::Tensor forward(const data::Batch& batch) {
    if (takes_lengths()) return network_->forward({batch.inputs, batch.lengths});
    return network_->forward({batch.inputs});
  }

  ContractTrial trial_on(const data::Store& store) const {
    const config::DeviceType device = config_.device.type;
    const bool gpu = device == config::DeviceType::kCuda ||
                     (device == config::DeviceType::kAuto && device::gpu_count() > 0);
    return trial_of(store, spec_, takes_lengths(), gpu ? at::kCUDA : at::kCPU);
  }

  // [B, ...] as one list per sample.
  template <typename Element>
  static std::vector<std::vector<Element>> per_sample(const at::Tensor& tensor) {
    const at::Tensor host = tensor.reshape({tensor.size(0), -1}).to(at::kCPU).contiguous();
    const auto* element = host.const_data_ptr<Element>();
    std::vector<std::vector<Element>> lists;
    for (int64_t i = 0; i < host.size(0); ++i, element += host.size(1)) {
      lists.emplace_back(element, element + host.size(1));
    }
    return lists;
  }

  template <typename Element>
  static Value one_or_all(const std::vector<Element>& elements) {
    if (elements.size() == 1) return elements.front();
    return elements;
  }

  std::vector<Row> class_rows(const at::Tensor& probabilities) const {
    const auto [best, index] = probabilities.max(1);
    const auto classes = per_sample<int64_t>(index);
    const auto shares = per_sample<double>(best);
    std::vector<Row> rows;
    for (size_t i = 0; i < classes.size(); ++i) {
      const bool named =
          classes[i].size() == 1 && classes[i][0] < static_cast<int64_t>(facts_.classes.size());
      rows.push_back({named ? Value(facts_.classes[static_cast<size_t>(classes[i][0])])
                            : one_or_all(classes[i]),
                      one_or_all(shares[i])});
    }
    return rows;
  }

  config::Config config_;
  DataFacts facts_;
  ModuleLoss loss_;
  // without label smoothing, so that evaluations of different runs can be compared
  ModuleLoss plain_loss_;
  std::shared_ptr<ScriptNetwork> network_;
  std::string sha256_;
  bool said_ = false;  // the message about random numbers
  data::SampleSpec spec_;
};

}  // namespace

std::unique_ptr<Task> make_module(const config::Config& config, const DataFacts& facts) {
  return std::make_unique<ModuleTask>(config, facts);
}

}  // namespace dtrain::tasks
