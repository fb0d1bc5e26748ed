#include "config/keys.h"

#include <algorithm>
#include <iterator>

namespace dtrain::config {

const std::vector<Section>& sections() {
  static const std::vector<Section> all = {
      {"task", "what to learn; `task: NAME` is short for `task: {name: NAME}`", task_keys},
      {"run", "the run, its folder and what it prints", [](Config& c) { return run_keys(c.run); }},
      {"data", "the data and how it is read", [](Config& c) { return data_keys(c.data); }},
      {"augment", "augmentation of the training split; each draw is keyed by (seed, epoch, sample)",
       [](Config& c) { return augment_keys(c.augment); }},
      {"model", "the network", [](Config& c) { return model_keys(c.model); }},
      {"train", "length, batch size and precision of the training",
       [](Config& c) { return train_keys(c.train); }},
      {"optimizer", "the update rule", [](Config& c) { return optimizer_keys(c.optimizer); }},
      {"schedule", "the learning rate over optimizer steps",
       [](Config& c) { return schedule_keys(c.schedule); }},
      {"pointer", "task pointer: the input of the decoder during training",
       [](Config& c) { return pointer_keys(c.pointer); }},
      {"sequence", "task sequence: the two phases",
       [](Config& c) { return sequence_keys(c.sequence); }},
      {"amp", "loss scaling (fp16 only)", [](Config& c) { return amp_keys(c.amp); }},
      {"checkpoint", "when checkpoints are saved, and which are kept",
       [](Config& c) { return checkpoint_keys(c.checkpoint); }},
      {"dist", "communication between ranks", [](Config& c) { return dist_keys(c.dist); }},
      {"device", "GPUs and CPU threads; `device: NAME` is short for `device: {type: NAME}`",
       [](Config& c) { return device_keys(c.device); }},
      {"metrics", "the Prometheus endpoint of each rank",
       [](Config& c) { return metrics_keys(c.metrics); }},
  };
  return all;
}

std::vector<Option> describe(Config& config) {
  std::vector<Option> table;
  for (const Section& section : sections())
    std::ranges::move(section.keys(config), std::back_inserter(table));
  return table;
}

}  // namespace dtrain::config
