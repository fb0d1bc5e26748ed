#include "config/table.h"

namespace dtrain::config {
namespace {

Range at_least(double low) { return {.low = low}; }
Range above(double low) { return {.low = low, .low_open = true}; }
Range between(double low, double high) { return {.low = low, .high = high}; }
Range below(double low, double high) { return {.low = low, .high = high, .high_open = true}; }
Range inside(double low, double high) { return {.low = low, .high = high, .low_open = true, .high_open = true}; }
Range up_to(double low, double high) { return {.low = low, .high = high, .low_open = true}; }

using Options = std::vector<Option>;

void task_keys(Options& table, Config& config) {
  table.insert(table.end(),
               {
                   // The section's own name as alias: `task: headpose` and `--task headpose` are short for it.
                   {.path = "task.name",
                    .alias = "task",
                    .target = &config.task,
                    .text = "what is learned",
                    .allowed = {"headpose", "classify", "pointer", "sequence", "module"},
                    .fixed = true},
                   {.path = "task.loss",
                    .target = &config.module.loss,
                    .text = "module: the loss of your own network",
                    .allowed = {"mse", "smooth_l1", "l1", "cross_entropy", "bce_with_logits", "nll"},
                    .fixed = true},
                   {.path = "task.inputs",
                    .target = &config.module.inputs,
                    .text = "module: what forward() of your own network is given",
                    .allowed = {"image", "rows", "rows+lengths"},
                    .fixed = true},
               });
}

void run_keys(Options& table, Run& run) {
  table.insert(
      table.end(),
      {
          {.path = "run.name",
           .alias = "name",
           .target = &run.name,
           .text = "name of the run and of its folder; empty: task-date-time. An existing one needs --resume"},
          {.path = "run.folder", .target = &run.folder, .text = "where run folders are made"},
          {.path = "run.log_every",
           .target = &run.log_every,
           .text = "a step line every so often",
           .unit = "500s steps, 2e epochs, 10m minutes"},
          {.path = "run.progress",
           .target = &run.progress,
           .text = "progress bar or step lines; auto: a bar on a terminal, lines under mpirun",
           .allowed = {"auto", "bar", "lines"}},
          {.path = "run.resume",
           .alias = "resume",
           .target = &run.resume,
           .text = "auto: continue the run of this name, or start it; or the path of a checkpoint or run folder"},
      });
}

void data_keys(Options& table, Data& data) {
  table.insert(
      table.end(),
      {
          {.path = "data.file",
           .alias = "dataset",
           .target = &data.file,
           .text = "dtrain HDF5 file; empty: a generated set of the task. As --dataset also 300wlp, biwi, images, "
                   "pointer or sequence: data/NAME.h5"},
          {.path = "data.workers",
           .alias = "workers",
           .target = &data.workers,
           .text = "reader threads per rank; 0: from the cores of the rank",
           .range = between(0, 1024)},
          {.path = "data.prefetch",
           .target = &data.prefetch,
           .text = "batches read ahead",
           .unit = "micro-batches",
           .range = between(1, 1024)},
          {.path = "data.val_share",
           .target = &data.val_share,
           .text = "share of the training split to validate on, by group, where the file has no validation split",
           .range = below(0, 1),
           .fixed = true},
          {.path = "data.verify", .target = &data.verify, .text = "check every sample's checksum while reading"},
          {.path = "data.on_bad_sample",
           .target = &data.on_bad_sample,
           .text = "a sample that cannot be read: stop with its name, or leave it out and go on",
           .allowed = {"stop", "skip"}},
          {.path = "data.length_window",
           .target = &data.length_window,
           .text = "samples of unequal length: batches of like length, sorted within so many; 0: not sorted",
           .unit = "global batches",
           .range = between(0, 1 << 20),
           .fixed = true},
      });
}

void augment_keys(Options& table, Augment& augment) {
  table.insert(table.end(), {
                                {.path = "augment.hflip",
                                 .target = &augment.hflip,
                                 .text = "mirror with probability 1/2 (negates yaw and roll)"},
                                {.path = "augment.crop_scale",
                                 .target = &augment.crop_scale,
                                 .text = "random resized crop: smallest share of the side; 1: none",
                                 .range = up_to(0, 1)},
                                {.path = "augment.crop_ratio",
                                 .target = &augment.crop_ratio,
                                 .text = "random resized crop: aspect drawn from [1/x, x]; 1: square",
                                 .range = between(1, 10)},
                                {.path = "augment.brightness",
                                 .target = &augment.brightness,
                                 .text = "factor drawn from [1 - x, 1 + x]",
                                 .range = between(0, 1)},
                                {.path = "augment.contrast",
                                 .target = &augment.contrast,
                                 .text = "factor drawn from [1 - x, 1 + x]",
                                 .range = between(0, 1)},
                                {.path = "augment.saturation",
                                 .target = &augment.saturation,
                                 .text = "factor drawn from [1 - x, 1 + x]",
                                 .range = between(0, 1)},
                                {.path = "augment.hue",
                                 .target = &augment.hue,
                                 .text = "turn of the hue circle drawn from [-x, x]",
                                 .unit = "turns",
                                 .range = between(0, 0.5)},
                                {.path = "augment.noise",
                                 .target = &augment.noise,
                                 .text = "sequence, encoder phase: standard deviation of what is added",
                                 .range = between(0, 1e6)},
                                {.path = "augment.mask_share",
                                 .target = &augment.mask_share,
                                 .text = "sequence, encoder phase: share of the rows that are hidden",
                                 .range = inside(0, 1)},
                                {.path = "augment.mask_span",
                                 .target = &augment.mask_span,
                                 .text = "sequence, encoder phase: consecutive rows hidden together",
                                 .unit = "rows",
                                 .range = between(1, 1 << 20)},
                            });
}

void model_keys(Options& table, Model& model) {
  table.insert(
      table.end(),
      {
          {.path = "model.name",
           .target = &model.name,
           .text = "the network; auto: the task's own",
           .allowed = {"auto", "headpose_cnn", "simple_cnn", "mobilenet_v2", "resnet18", "resnet50", "pointer_network",
                       "cnn_lstm", "torchscript"},
           .fixed = true},
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
           .text = "parameters that keep their values: name patterns joined by commas, as features.*,conv1"},
          {.path = "model.checkpointing",
           .target = &model.checkpointing,
           .text = "convolutional networks: less memory, activations are computed again in backward"},
      });
}

void train_keys(Options& table, Train& train) {
  table.insert(table.end(),
               {
                   {.path = "train.epochs",
                    .alias = "epochs",
                    .target = &train.epochs,
                    .text = "passes over the training split",
                    .range = at_least(1)},
                   {.path = "train.max_steps",
                    .target = &train.max_steps,
                    .text = "stop after so many steps; 0: by epochs only",
                    .unit = "optimizer steps",
                    .range = at_least(0)},
                   {.path = "train.batch_size",
                    .alias = "batch-size",
                    .target = &train.batch_size,
                    .text = "samples per rank and micro-step",
                    .unit = "samples",
                    .range = between(1, 1 << 24)},
                   {.path = "train.accumulate",
                    .alias = "accumulate",
                    .target = &train.accumulate,
                    .text = "micro-steps per optimizer step; 0: from global_batch (1 if that is 0 too)",
                    .range = between(0, 1 << 24)},
                   {.path = "train.global_batch",
                    .target = &train.global_batch,
                    .text = "samples per optimizer step over all ranks; 0: batch_size × ranks × accumulate",
                    .unit = "samples",
                    .range = between(0, 1 << 30),
                    .fixed = true},
                   {.path = "train.amp",
                    .alias = "amp",
                    .target = &train.amp,
                    .text = "precision of forward and backward; auto: bf16 or fp16 by GPU, fp32 on the CPU; off: fp32",
                    .allowed = {"auto", "fp16", "bf16", "tf32", "fp32", "fp64"},
                    .synonyms = {{"off", "fp32"}}},
                   {.path = "train.seed",
                    .target = &train.seed,
                    .text = "key of every random number",
                    .range = at_least(0),
                    .fixed = true},
                   {.path = "train.deterministic",
                    .target = &train.deterministic,
                    .text = "only operators that give the same bits each time; slower"},
                   {.path = "train.freeze_batch_norm",
                    .target = &train.freeze_batch_norm,
                    .text = "batch norm uses its running statistics and leaves them as they are"},
                   {.path = "train.sync_batch_norm",
                    .target = &train.sync_batch_norm,
                    .text = "batch norm: statistics of the micro-batches of all ranks together"},
                   {.path = "train.metric",
                    .target = &train.metric,
                    .text = "validation metric of best checkpoint, early stop and plateau; empty: the task's own"},
                   {.path = "train.patience",
                    .target = &train.patience,
                    .text = "stop after so many evaluations without improvement; 0: never",
                    .range = at_least(0)},
                   {.path = "train.min_delta",
                    .target = &train.min_delta,
                    .text = "early stop: what counts as improvement of the metric",
                    .range = at_least(0)},
                   {.path = "train.ema",
                    .target = &train.ema,
                    .text = "decay of averaged weights per optimizer step, which are evaluated and saved; 0: none",
                    .range = below(0, 1),
                    .fixed = true},
                   {.path = "train.overfit_batches",
                    .target = &train.overfit_batches,
                    .text = "train on so many batches again and again, without augmentation; 0: on all",
                    .unit = "global batches",
                    .range = between(0, 1 << 20)},
                   {.path = "train.label_smoothing",
                    .target = &train.label_smoothing,
                    .text = "classes: share of the target spread over all",
                    .range = below(0, 1)},
                   {.path = "train.class_weights",
                    .target = &train.class_weights,
                    .text = "classes: none, balanced (rare ones count more), or a number each, as 1,0.5,2"},
                   {.path = "train.eval_every",
                    .target = &train.eval_every,
                    .text = "validate every so often, and at the end",
                    .unit = "500s steps, 2e epochs, 10m minutes"},
               });
}

void optimizer_keys(Options& table, Optimizer& optimizer) {
  table.insert(
      table.end(),
      {
          {.path = "optimizer.name",
           .target = &optimizer.name,
           .text = "the update rule",
           .allowed = {"adamw", "adam", "sgd"}},
          {.path = "optimizer.lr",
           .alias = "lr",
           .target = &optimizer.lr,
           .text = "learning rate before the schedule",
           .range = above(0)},
          {.path = "optimizer.weight_decay",
           .target = &optimizer.weight_decay,
           .text = "decoupled for adamw, added to the gradient for adam and sgd",
           .range = at_least(0)},
          {.path = "optimizer.momentum", .target = &optimizer.momentum, .text = "sgd: momentum", .range = below(0, 1)},
          {.path = "optimizer.nesterov", .target = &optimizer.nesterov, .text = "sgd: Nesterov's momentum"},
          {.path = "optimizer.beta1",
           .target = &optimizer.beta1,
           .text = "adam, adamw: decay of the mean gradient",
           .range = below(0, 1)},
          {.path = "optimizer.beta2",
           .target = &optimizer.beta2,
           .text = "adam, adamw: decay of the mean squared gradient",
           .range = below(0, 1)},
          {.path = "optimizer.eps",
           .target = &optimizer.eps,
           .text = "adam, adamw: added to the denominator",
           .range = above(0)},
          {.path = "optimizer.clip_norm",
           .target = &optimizer.clip_norm,
           .text = "largest norm of the whole gradient, after unscaling; 0: no clipping",
           .range = at_least(0)},
          {.path = "optimizer.clip_value",
           .target = &optimizer.clip_value,
           .text = "largest size of each element of the gradient, after unscaling; 0: no clipping",
           .range = at_least(0)},
          {.path = "optimizer.decay_norms_and_biases",
           .target = &optimizer.decay_norms_and_biases,
           .text = "weight decay also on parameters of one dimension"},
      });
}

void schedule_keys(Options& table, Schedule& schedule) {
  table.insert(table.end(), {
                                {.path = "schedule.name",
                                 .target = &schedule.name,
                                 .text = "how the learning rate goes on after the warm-up",
                                 .allowed = {"constant", "step", "cosine", "one_cycle", "plateau"}},
                                {.path = "schedule.warmup_steps",
                                 .target = &schedule.warmup_steps,
                                 .text = "linear rise from 0 to lr",
                                 .unit = "optimizer steps",
                                 .range = at_least(0)},
                                {.path = "schedule.step_epochs",
                                 .target = &schedule.step_epochs,
                                 .text = "step: epochs between drops",
                                 .unit = "epochs",
                                 .range = at_least(1)},
                                {.path = "schedule.gamma",
                                 .target = &schedule.gamma,
                                 .text = "step, plateau: factor of a drop",
                                 .range = up_to(0, 1)},
                                {.path = "schedule.final_lr_ratio",
                                 .target = &schedule.final_lr_ratio,
                                 .text = "cosine, one_cycle: learning rate at the end ÷ lr",
                                 .range = between(0, 1)},
                                {.path = "schedule.patience",
                                 .target = &schedule.patience,
                                 .text = "plateau: evaluations without improvement before a drop",
                                 .range = at_least(0)},
                                {.path = "schedule.threshold",
                                 .target = &schedule.threshold,
                                 .text = "plateau: relative improvement that counts",
                                 .range = at_least(0)},
                            });
}

void pointer_keys(Options& table, Pointer& pointer) {
  table.insert(table.end(), {
                                {.path = "pointer.teacher_forcing",
                                 .target = &pointer.teacher_forcing,
                                 .text = "share of the samples fed the right order, at the start",
                                 .range = between(0, 1)},
                                {.path = "pointer.teacher_forcing_end",
                                 .target = &pointer.teacher_forcing_end,
                                 .text = "that share in the last epoch, linear between",
                                 .range = between(0, 1)},
                            });
}

void sequence_keys(Options& table, Sequence& sequence) {
  table.insert(table.end(), {
                                {.path = "sequence.encoder_epochs",
                                 .target = &sequence.encoder_epochs,
                                 .text = "of one iteration: the encoder learns to rebuild what is noised and masked",
                                 .unit = "epochs",
                                 .range = at_least(0)},
                                {.path = "sequence.classifier_epochs",
                                 .target = &sequence.classifier_epochs,
                                 .text = "of one iteration, after them: the classes are learned",
                                 .unit = "epochs",
                                 .range = at_least(1)},
                                {.path = "sequence.iterations",
                                 .target = &sequence.iterations,
                                 .text = "how often both phases come; 0: as often as train.epochs allows",
                                 .range = at_least(0)},
                                {.path = "sequence.encoder_lr_ratio",
                                 .target = &sequence.encoder_lr_ratio,
                                 .text = "classifier phase: learning rate of the encoder ÷ lr; 0: it is frozen",
                                 .range = between(0, 1)},
                            });
}

void amp_keys(Options& table, Amp& amp) {
  table.insert(table.end(), {
                                {.path = "amp.init_scale",
                                 .target = &amp.init_scale,
                                 .text = "fp16: first loss scale",
                                 .range = between(1, 16777216)},
                                {.path = "amp.growth",
                                 .target = &amp.growth,
                                 .text = "fp16: factor after growth_interval good steps",
                                 .range = above(1)},
                                {.path = "amp.backoff",
                                 .target = &amp.backoff,
                                 .text = "fp16: factor after a step with inf",
                                 .range = inside(0, 1)},
                                {.path = "amp.growth_interval",
                                 .target = &amp.growth_interval,
                                 .text = "fp16: good steps before the scale grows",
                                 .unit = "optimizer steps",
                                 .range = between(1, 2147483647)},
                            });
}

void checkpoint_keys(Options& table, Checkpoint& checkpoint) {
  table.insert(table.end(), {
                                {.path = "checkpoint.every",
                                 .target = &checkpoint.every,
                                 .text = "save every so often, and at the end",
                                 .unit = "500s steps, 2e epochs, 10m minutes"},
                                {.path = "checkpoint.keep_last",
                                 .target = &checkpoint.keep_last,
                                 .text = "checkpoints to keep besides the best",
                                 .range = at_least(1)},
                                {.path = "checkpoint.keep_best",
                                 .target = &checkpoint.keep_best,
                                 .text = "keep the best by the validation metric"},
                            });
}

void dist_keys(Options& table, Dist& dist) {
  table.insert(
      table.end(),
      {
          {.path = "dist.backend",
           .target = &dist.backend,
           .text = "how gradients travel; auto: nccl with one GPU per rank, staged with shared GPUs, mpi on CPUs",
           .allowed = {"auto", "nccl", "staged", "mpi"}},
          {.path = "dist.timeout",
           .target = &dist.timeout,
           .text = "a rank without progress for so long ends the job",
           .unit = "seconds",
           .range = between(1, 1e6)},
          {.path = "dist.bucket_mb",
           .target = &dist.bucket_mb,
           .text = "gradients sent at once",
           .unit = "MiB",
           .range = up_to(0, 4096)},
          {.path = "dist.first_bucket_mb",
           .target = &dist.first_bucket_mb,
           .text = "the first ones, small to start early",
           .unit = "MiB",
           .range = up_to(0, 4096)},
      });
}

void device_keys(Options& table, Device& device) {
  table.insert(table.end(), {
                                {.path = "device.type",
                                 .target = &device.type,
                                 .text = "auto: GPUs when there are any",
                                 .allowed = {"auto", "cuda", "cpu"}},
                                {.path = "device.threads",
                                 .target = &device.threads,
                                 .text = "CPU threads per rank; 0: cores it may use ÷ ranks on them",
                                 .range = between(0, 4096)},
                                {.path = "device.cudnn_benchmark",
                                 .target = &device.cudnn_benchmark,
                                 .text = "let cuDNN try its algorithms at the first steps"},
                            });
}

void metrics_keys(Options& table, Metrics& metrics) {
  table.insert(
      table.end(),
      {
          {.path = "metrics.enabled", .target = &metrics.enabled, .text = "serve Prometheus metrics over HTTP"},
          {.path = "metrics.bind",
           .target = &metrics.bind,
           .text = "address to listen on; 0.0.0.0: reachable from outside"},
          {.path = "metrics.port",
           .target = &metrics.port,
           .text = "first port, plus the local rank; 0: any free one",
           .range = between(0, 65535)},
          {.path = "metrics.linger_seconds",
           .target = &metrics.linger_seconds,
           .text = "keep serving after the last step",
           .unit = "seconds",
           .range = between(0, 86400)},
          {.path = "metrics.gpu_interval",
           .target = &metrics.gpu_interval,
           .text = "between readings of the GPU's sensors",
           .unit = "seconds",
           .range = between(0.1, 3600)},
      });
}

}  // namespace

std::vector<Option> describe(Config& config) {
  Options table;
  task_keys(table, config);
  run_keys(table, config.run);
  data_keys(table, config.data);
  augment_keys(table, config.augment);
  model_keys(table, config.model);
  train_keys(table, config.train);
  optimizer_keys(table, config.optimizer);
  schedule_keys(table, config.schedule);
  pointer_keys(table, config.pointer);
  sequence_keys(table, config.sequence);
  amp_keys(table, config.amp);
  checkpoint_keys(table, config.checkpoint);
  dist_keys(table, config.dist);
  device_keys(table, config.device);
  metrics_keys(table, config.metrics);
  return table;
}

const std::vector<Section>& sections() {
  static const std::vector<Section> all = {
      {"task", "what is learned; `task: NAME` is short for `task: {name: NAME}`"},
      {"run", "the run, its folder and what it prints"},
      {"data", "what is read, and how"},
      {"augment", "augmentation of the training split; each draw is keyed by (seed, epoch, sample)"},
      {"model", "the network"},
      {"train", "how long, how much at once, how precisely"},
      {"optimizer", "the update"},
      {"schedule", "the learning rate over optimizer steps"},
      {"pointer", "task pointer: how the decoder is fed while training"},
      {"sequence", "task sequence: the two phases"},
      {"amp", "loss scaling (fp16 only)"},
      {"checkpoint", "what is saved besides the end of the run"},
      {"dist", "how ranks meet"},
      {"device", "GPUs and CPU threads"},
      {"metrics", "the Prometheus endpoint of each rank"},
  };
  return all;
}

}  // namespace dtrain::config
