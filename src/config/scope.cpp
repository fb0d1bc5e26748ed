#include "config/scope.h"

#include "config/config.h"

namespace dtrain::config {
namespace {

using catalog::SampleKind;

const catalog::TaskEntry& task(const Config& c) { return catalog::row(c.task); }
const catalog::NetworkEntry& network(const Config& c) { return catalog::row(network_of(c)); }

// A `module` takes what task.inputs says, whatever the sample of its entry in the catalog.
bool has_pictures(const Config& c) {
  return task(c).network_from_file() ? c.module.inputs == ModuleInputs::kImage
                                     : task(c).sample == SampleKind::kPicture;
}

bool learns_classes(const Config& c) {
  const LossName loss = c.module.loss;
  return loss == LossName::kCrossEntropy || loss == LossName::kNll ||
         loss == LossName::kBceWithLogits;
}

}  // namespace

const Scope kPictures = {"tasks with pictures", has_pictures};
const Scope kMirrored = {
    "tasks with pictures (of task module: with a loss over classes)", [](const Config& c) {
      return has_pictures(c) && (!task(c).network_from_file() || learns_classes(c));
    }};
const Scope kRows = {"tasks with sequences or sets",
                     [](const Config& c) { return !has_pictures(c); }};
const Scope kFourDimensions = {"tasks with pictures, and task module", [](const Config& c) {
                                 return has_pictures(c) || task(c).network_from_file();
                               }};
const Scope kTaskPointer = {"task pointer",
                            [](const Config& c) { return task(c).teacher_forcing; }};
const Scope kTaskSequence = {"task sequence",
                             [](const Config& c) { return task(c).encoder_phase; }};
const Scope kTorchScript = {"task module",
                            [](const Config& c) { return task(c).network_from_file(); }};
const Scope kConvolutions = {"dtrain's own networks of pictures", [](const Config& c) {
                               return has_pictures(c) && !task(c).network_from_file();
                             }};
const Scope kDropout = {"networks with dropout",
                        [](const Config& c) { return network(c).dropout > 0; }};
const Scope kBatchNorm = {"networks with batch norm",
                          [](const Config& c) { return network(c).batch_norm; }};
const Scope kHiddenUnits = {"pointer_network and cnn_lstm",
                            [](const Config& c) { return network(c).recurrent(); }};
const Scope kSmoothedLoss = {
    "losses over classes", [](const Config& c) {
      return task(c).may_have_classes() &&
             (!task(c).network_from_file() || c.module.loss == LossName::kCrossEntropy);
    }};
const Scope kClassWeights = {"task classify",
                             [](const Config& c) { return task(c).class_weights; }};

}  // namespace dtrain::config
