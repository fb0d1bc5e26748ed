// The task, its network, and the keys of single tasks.

#include "config/keys.h"

namespace dtrain::config {

std::vector<Option> task_keys(Config& config) {
  return {
      // The alias is the name of the section, so that `task: headpose` and `--task headpose` set
      // this key.
      {.path = "task.name",
       .alias = "task",
       .target = &config.task,
       .text = "what to learn",
       .fixed = true},
      {.path = "task.loss",
       .target = &config.module.loss,
       .text = "the loss to minimize",
       .fixed = true,
       .scope = kTorchScript},
      {.path = "task.inputs",
       .alias = "inputs",
       .target = &config.module.inputs,
       .text = "the arguments of forward()",
       .fixed = true,
       .scope = kTorchScript},
  };
}

std::vector<Option> model_keys(Model& model) {
  return {
      {.path = "model.name",
       .target = &model.name,
       .text = "the network; auto: the default of the task",
       .fixed = true},
      {.path = "model.image_size",
       .alias = "image-size",
       .target = &model.image_size,
       .text = "width and height of the network's input",
       .unit = "pixels",
       .range = between(32, 4096),
       .fixed = true,
       .scope = kPictures},
      {.path = "model.dropout",
       .target = &model.dropout,
       .text = "fraction of units to drop; -1: the network's default",
       .range = below(-1, 1),
       .scope = kDropout},
      {.path = "model.hidden",
       .target = &model.hidden,
       .text = "units of each LSTM layer",
       .range = between(1, 1 << 16),
       .fixed = true,
       .scope = kHiddenUnits},
      {.path = "model.channels_last",
       .target = &model.channels_last,
       .text = "store image tensors in NHWC order, which is faster",
       .scope = kFourDimensions},
      {.path = "model.init",
       .alias = "init",
       .target = &model.init,
       .text = "safetensors file with initial weights (torchvision's names); a last layer of "
               "another size is not loaded"},
      {.path = "model.file",
       .alias = "module",
       .target = &model.file,
       .text = "the TorchScript file. It contains code: use only files that you trust",
       .scope = kTorchScript},
      {.path = "model.freeze",
       .target = &model.freeze,
       .text = "parameters that are not trained: name patterns separated by commas, such as "
               "features.*,conv1",
       .fixed = true},
      {.path = "model.checkpointing",
       .target = &model.checkpointing,
       .text = "save memory by recomputing activations in the backward pass",
       .scope = kConvolutions},
  };
}

std::vector<Option> pointer_keys(Pointer& pointer) {
  return {
      {.path = "pointer.teacher_forcing",
       .target = &pointer.teacher_forcing,
       .text = "fraction of samples whose decoder receives the correct order, in the first epoch",
       .range = between(0, 1),
       .scope = kTaskPointer},
      {.path = "pointer.teacher_forcing_end",
       .target = &pointer.teacher_forcing_end,
       .text = "that fraction in the last epoch; linear in between",
       .range = between(0, 1),
       .scope = kTaskPointer},
  };
}

std::vector<Option> sequence_keys(Sequence& sequence) {
  return {
      {.path = "sequence.encoder_epochs",
       .target = &sequence.encoder_epochs,
       .text = "per iteration: the encoder learns to reconstruct noisy, masked rows",
       .unit = "epochs",
       .range = between(0, 1e6),
       .scope = kTaskSequence},
      {.path = "sequence.classifier_epochs",
       .target = &sequence.classifier_epochs,
       .text = "per iteration, after the encoder epochs: the classifier learns the classes",
       .unit = "epochs",
       .range = between(1, 1e6),
       .scope = kTaskSequence},
      {.path = "sequence.iterations",
       .target = &sequence.iterations,
       .text = "how often both phases are repeated; 0: as often as train.epochs allows",
       .range = between(0, 1e6),
       .scope = kTaskSequence},
      {.path = "sequence.encoder_lr_ratio",
       .target = &sequence.encoder_lr_ratio,
       .text = "classifier phase: learning rate of the encoder ÷ lr; 0: the encoder is frozen",
       .range = between(0, 1),
       .fixed = true,
       .scope = kTaskSequence},
  };
}

}  // namespace dtrain::config
