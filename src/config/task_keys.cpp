// The task, its network, and the keys of single tasks.

#include "config/keys.h"

namespace dtrain::config {

std::vector<Option> task_keys(Config& config) {
  return {
      // The alias is the name of the section, so that `task: headpose` and `--task headpose` set
      // this key.
      Option("task.name", &config.task, "what to learn", {.alias = "task", .fixed = true}),
      Option("task.loss", &config.module.loss, "the loss to minimize",
             {.fixed = true, .scope = kTorchScript}),
      Option("task.inputs", &config.module.inputs, "the arguments of forward()",
             {.alias = "inputs", .fixed = true, .scope = kTorchScript}),
  };
}

std::vector<Option> model_keys(Model& model) {
  return {
      Option("model.name", &model.name, "the network; auto: the default of the task",
             {.fixed = true}),
      Option("model.image_size", &model.image_size, "width and height of the network's input",
             {.alias = "image-size",
              .unit = "pixels",
              .range = between(32, 4096),
              .fixed = true,
              .scope = kPictures}),
      Option("model.dropout", &model.dropout,
             "fraction of units to drop; -1: the network's default",
             {.range = below(-1, 1), .scope = kDropout}),
      Option("model.hidden", &model.hidden, "units of each LSTM layer",
             {.range = between(1, 1 << 16), .fixed = true, .scope = kHiddenUnits}),
      Option("model.channels_last", &model.channels_last,
             "store image tensors in NHWC order, which is faster", {.scope = kFourDimensions}),
      Option("model.init", &model.init,
             "safetensors file with initial weights (torchvision's names); a last layer of another "
             "size is not loaded",
             {.alias = "init"}),
      Option("model.file", &model.file,
             "the TorchScript file. It contains code: use only files that you trust",
             {.alias = "module", .scope = kTorchScript}),
      Option("model.freeze", &model.freeze,
             "parameters that are not trained: name patterns separated by commas, such as "
             "features.*,conv1",
             {.fixed = true}),
      Option("model.checkpointing", &model.checkpointing,
             "save memory by recomputing activations in the backward pass",
             {.scope = kConvolutions}),
  };
}

std::vector<Option> pointer_keys(Pointer& pointer) {
  return {
      Option("pointer.teacher_forcing", &pointer.teacher_forcing,
             "fraction of samples whose decoder receives the correct order, in the first epoch",
             {.range = between(0, 1), .scope = kTaskPointer}),
      Option("pointer.teacher_forcing_end", &pointer.teacher_forcing_end,
             "that fraction in the last epoch; linear in between",
             {.range = between(0, 1), .scope = kTaskPointer}),
  };
}

std::vector<Option> sequence_keys(Sequence& sequence) {
  return {
      Option("sequence.encoder_epochs", &sequence.encoder_epochs,
             "per iteration: the encoder learns to reconstruct noisy, masked rows",
             {.unit = "epochs", .range = between(0, 1e6), .scope = kTaskSequence}),
      Option("sequence.classifier_epochs", &sequence.classifier_epochs,
             "per iteration, after the encoder epochs: the classifier learns the classes",
             {.unit = "epochs", .range = between(1, 1e6), .scope = kTaskSequence}),
      Option("sequence.iterations", &sequence.iterations,
             "how often both phases are repeated; 0: as often as train.epochs allows",
             {.range = between(0, 1e6), .scope = kTaskSequence}),
      Option("sequence.encoder_lr_ratio", &sequence.encoder_lr_ratio,
             "classifier phase: learning rate of the encoder ÷ lr; 0: the encoder is frozen",
             {.range = between(0, 1), .fixed = true, .scope = kTaskSequence}),
  };
}

}  // namespace dtrain::config
