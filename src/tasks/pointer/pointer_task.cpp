// Task `pointer`: a set of elements -> an order of them. README.md of this folder describes data,
// command and result.

#include <algorithm>

#include "config/config.h"
#include "core/error.h"
#include "layers/lengths.h"
#include "layers/teacher_forcing.h"
#include "models/pointer_network.h"
#include "tasks/samples.h"
#include "tasks/task.h"
#include "text/strings.h"

namespace dtrain::tasks {
namespace {

constexpr int64_t kFeatures = 8;  // the last one is is_visited

class PointerTask : public Task {
 public:
  PointerTask(const config::Config& config, const DataFacts& facts)
      : config_(config),
        facts_(facts),
        network_(std::make_shared<models::PointerNetwork>(
            models::PointerNetworkOptions{.features = kFeatures,
                                          .hidden = config.model.hidden,
                                          .dropout = config::dropout_of(config),
                                          .seed = static_cast<uint64_t>(config.train.seed)})) {
    spec_ = row_samples(config);
    spec_.longest = facts.longest;
    spec_.target_is_order = true;
  }

  torch::nn::Module& model() override { return *network_; }
  const data::SampleSpec& samples() const override { return spec_; }

  void check(const data::Store& store) override {
    const data::Schema& schema = schema_of(store, "pointer");
    const std::string file = store.origin().path().string();
    const bool inputs_fit =
        schema.input.element == data::Element::kFloat32 && schema.input.shape.size() == 2;
    if (!inputs_fit || schema.target.element != data::Element::kInt64 ||
        schema.target.shape.size() != 1) {
      throw DataError(dtrain::str(file, ": pointer needs /inputs float32 [elements, ", kFeatures,
                                  "] and /targets int64 [elements] of each sample"));
    }
    if (schema.input.shape[1] != kFeatures) {
      throw DataError(dtrain::str(file, "#0: elements have ", schema.input.shape[1],
                                  " features; the network takes ", kFeatures,
                                  ", of which the last is is_visited. Convert the set again"));
    }
  }

  Loss loss(const data::Batch& batch) override {
    const models::Sets sets = sets_of(batch);
    const models::PointerNetwork::Memory memory = network_->encode(sets);
    const at::Tensor losses =
        network_->losses(sets, memory, batch.targets, fed(batch, sets, memory));
    return {losses, sets.lengths.sum(at::kDouble)};
  }

  double planned_weight(int64_t samples) const override {
    return std::max(1.0, static_cast<double>(samples) * facts_.mean_rows);
  }

  Counted count(const data::Batch& batch) override {
    const models::Sets sets = sets_of(batch);
    const models::PointerNetwork::Memory memory = network_->encode(sets);
    const at::Tensor losses = network_->losses(sets, memory, batch.targets, batch.targets);
    const at::Tensor valid = layers::valid_positions(sets.lengths, sets.elements.size(1));
    const at::Tensor wrong =
        network_->choose(sets, memory).ne(batch.targets).logical_and(valid).sum(1);  // [B]
    const at::Tensor positions = sets.lengths.sum(at::kDouble);
    return {{{"positions", positions},
             {"samples", at::full_like(positions, batch.samples())},
             {"loss", losses.sum().to(at::kDouble)},
             {"correct", positions - wrong.sum().to(at::kDouble)},
             {"exact", wrong.eq(0).sum().to(at::kDouble)}},
            wrong.to(at::kDouble) / sets.lengths.to(at::kDouble)};
  }

  Summary summarise(const Counts& totals) const override {
    const double positions = number_of(totals, "positions");
    Summary summary;
    summary.metrics = {
        {"loss", number_of(totals, "loss") / positions},
        {"position_accuracy", number_of(totals, "correct") / positions},
        {"sequence_accuracy", number_of(totals, "exact") / number_of(totals, "samples")}};
    return summary;
  }

  std::vector<MetricSpec> metrics() const override {
    return {
        {"loss"}, primary(share_metric("position_accuracy")), share_metric("sequence_accuracy")};
  }

  std::vector<std::string> columns() const override { return {"order"}; }

  std::vector<Row> predict(const data::Batch& batch) override {
    const models::Sets sets = sets_of(batch);
    const at::Tensor order =
        network_->choose(sets, network_->encode(sets)).to(at::kCPU).contiguous();
    const at::Tensor lengths = sets.lengths.to(at::kCPU).contiguous();
    std::vector<Row> rows;
    for (int64_t i = 0; i < order.size(0); ++i) {
      const int64_t* first = order.const_data_ptr<int64_t>() + i * order.size(1);
      rows.push_back({std::vector<int64_t>(first, first + lengths.const_data_ptr<int64_t>()[i])});
    }
    return rows;
  }

  int64_t decisions(const data::Batch& batch) const override {
    return (is_padded(batch) ? 1 : 0) + (feeds_choices(batch) ? 2 : 0);
  }

  Metadata metadata() const override {
    Metadata metadata = to_metadata(facts_);
    metadata.insert({{"task", "pointer"},
                     {"network", dtrain::str(config::network_of(config_))},
                     {"hidden", dtrain::str(config_.model.hidden)},
                     {"outputs", "order"}});
    return metadata;
  }

 private:
  static bool is_padded(const data::Batch& batch) {
    return batch.rows != batch.inputs.size(0) * batch.inputs.size(1);
  }
  static models::Sets sets_of(const data::Batch& batch) {
    return {batch.inputs, batch.lengths, is_padded(batch)};
  }

  layers::TeacherForcing forcing() const {
    return {config_.pointer.teacher_forcing, config_.pointer.teacher_forcing_end,
            config_.train.epochs};
  }
  bool feeds_choices(const data::Batch& batch) const {
    return layers::teacher_forcing_ratio(forcing(), batch.epoch) < 1;
  }

  // The order that the decoder receives: the correct one, or for samples without teacher forcing
  // its own choices.
  at::Tensor fed(const data::Batch& batch, const models::Sets& sets,
                 const models::PointerNetwork::Memory& memory) {
    if (!feeds_choices(batch)) return batch.targets;
    const at::Tensor forced =
        layers::forced_samples(draws_of(batch, config_.train.seed), forcing()).unsqueeze(1);
    return at::where(forced, batch.targets, network_->choose(sets, memory, batch.targets));
  }

  config::Config config_;
  DataFacts facts_;
  std::shared_ptr<models::PointerNetwork> network_;
  data::SampleSpec spec_;
};

}  // namespace

std::unique_ptr<Task> make_pointer(const config::Config& config, const DataFacts& facts) {
  return std::make_unique<PointerTask>(config, facts);
}

}  // namespace dtrain::tasks
