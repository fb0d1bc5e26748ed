// What is learned: the task, its network, and what single tasks add.

#include "config/keys.h"

namespace dtrain::config {

std::vector<Option> task_keys(Config& config) {
  return {
      // The section's own name as alias: `task: headpose` and `--task headpose` are short for it.
      {.path = "task.name", .alias = "task", .target = &config.task, .text = "what is learned", .fixed = true},
      {.path = "task.loss",
       .target = &config.module.loss,
       .text = "module: the loss of your own network",
       .fixed = true},
      {.path = "task.inputs",
       .target = &config.module.inputs,
       .text = "module: what forward() of your own network is given",
       .fixed = true},
  };
}

std::vector<Option> model_keys(Model& model) {
  return {
      {.path = "model.name", .target = &model.name, .text = "the network; auto: the task's own", .fixed = true},
      {.path = "model.image_size",
       .target = &model.image_size,
       .text = "side of the network's input",
       .unit = "pixels",
       .range = between(32, 4096),
       .fixed = true},
      {.path = "model.dropout",
       .target = &model.dropout,
       .text = "share of the units dropped, where the network has dropout; -1: the network's own",
       .range = below(-1, 1)},
      {.path = "model.hidden",
       .target = &model.hidden,
       .text = "units of each LSTM layer (pointer_network, cnn_lstm)",
       .range = between(1, 1 << 16),
       .fixed = true},
      {.path = "model.channels_last", .target = &model.channels_last, .text = "NHWC memory: faster for images"},
      {.path = "model.init",
       .alias = "init",
       .target = &model.init,
       .text = "safetensors file to start from (torchvision's names; another last layer is replaced)"},
      {.path = "model.file",
       .target = &model.file,
       .text = "torchscript: the file of the module. Such a file is code: run only what you trust"},
      {.path = "model.freeze",
       .target = &model.freeze,
       .text = "parameters that keep their values: name patterns joined by commas, as features.*,conv1",
       .fixed = true},
      {.path = "model.checkpointing",
       .target = &model.checkpointing,
       .text = "convolutional networks: less memory, activations are computed again in backward"},
  };
}

std::vector<Option> pointer_keys(Pointer& pointer) {
  return {
      {.path = "pointer.teacher_forcing",
       .target = &pointer.teacher_forcing,
       .text = "share of the samples fed the right order, at the start",
       .range = between(0, 1)},
      {.path = "pointer.teacher_forcing_end",
       .target = &pointer.teacher_forcing_end,
       .text = "that share in the last epoch, linear between",
       .range = between(0, 1)},
  };
}

std::vector<Option> sequence_keys(Sequence& sequence) {
  return {
      {.path = "sequence.encoder_epochs",
       .target = &sequence.encoder_epochs,
       .text = "of one iteration: the encoder learns to rebuild what is noised and masked",
       .unit = "epochs",
       .range = between(0, 1e6)},
      {.path = "sequence.classifier_epochs",
       .target = &sequence.classifier_epochs,
       .text = "of one iteration, after them: the classes are learned",
       .unit = "epochs",
       .range = between(1, 1e6)},
      {.path = "sequence.iterations",
       .target = &sequence.iterations,
       .text = "how often both phases come; 0: as often as train.epochs allows",
       .range = between(0, 1e6)},
      {.path = "sequence.encoder_lr_ratio",
       .target = &sequence.encoder_lr_ratio,
       .text = "classifier phase: learning rate of the encoder ÷ lr; 0: it is frozen",
       .range = between(0, 1),
       .fixed = true},
  };
}

}  // namespace dtrain::config
