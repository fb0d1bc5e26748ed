#include "config/keys.h"

#include <algorithm>
#include <iterator>

namespace dtrain::config {

std::vector<Option> describe(Config& config) {
  std::vector<Option> table;
  const auto add = [&](std::vector<Option> keys) {
    std::ranges::move(keys, std::back_inserter(table));
  };
  add(task_keys(config));
  add(run_keys(config.run));
  add(data_keys(config.data));
  add(augment_keys(config.augment));
  add(model_keys(config.model));
  add(train_keys(config.train));
  add(optimizer_keys(config.optimizer));
  add(schedule_keys(config.schedule));
  add(pointer_keys(config.pointer));
  add(sequence_keys(config.sequence));
  add(amp_keys(config.amp));
  add(checkpoint_keys(config.checkpoint));
  add(dist_keys(config.dist));
  add(device_keys(config.device));
  add(metrics_keys(config.metrics));
  return table;
}

const std::vector<Section>& sections() {
  static const std::vector<Section> all = {
      {"task", "what to learn; `task: NAME` is short for `task: {name: NAME}`"},
      {"run", "the run, its folder and what it prints"},
      {"data", "the data and how it is read"},
      {"augment",
       "augmentation of the training split; each draw is keyed by (seed, epoch, sample)"},
      {"model", "the network"},
      {"train", "length, batch size and precision of the training"},
      {"optimizer", "the update rule"},
      {"schedule", "the learning rate over optimizer steps"},
      {"pointer", "task pointer: the input of the decoder during training"},
      {"sequence", "task sequence: the two phases"},
      {"amp", "loss scaling (fp16 only)"},
      {"checkpoint", "when checkpoints are saved, and which are kept"},
      {"dist", "communication between ranks"},
      {"device", "GPUs and CPU threads; `device: NAME` is short for `device: {type: NAME}`"},
      {"metrics", "the Prometheus endpoint of each rank"},
  };
  return all;
}

}  // namespace dtrain::config
