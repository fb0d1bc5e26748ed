// The training: its length, optimizer, learning rate and loss scaling.

#include "config/keys.h"

namespace dtrain::config {

std::vector<Option> train_keys(Train& train) {
  return {
      Option("train.epochs", &train.epochs, "passes over the training split",
             {.alias = "epochs", .range = between(1, 1e6)}),
      Option("train.max_steps", &train.max_steps,
             "stop after this many steps; 0: train.epochs alone decides",
             {.unit = "optimizer steps", .range = at_least(0)}),
      Option("train.batch_size", &train.batch_size, "samples per rank and micro-step",
             {.alias = "batch-size", .unit = "samples", .range = between(1, 1 << 24)}),
      Option("train.accumulate", &train.accumulate,
             "micro-steps per optimizer step; 0: as global_batch needs",
             {.alias = "accumulate", .range = between(0, 1 << 24)}),
      Option("train.global_batch", &train.global_batch,
             "samples per optimizer step over all ranks; 0: batch_size × ranks × accumulate",
             {.unit = "samples", .range = between(0, 1 << 30), .fixed = true}),
      Option("train.amp", &train.amp,
             "precision of forward and backward; auto: bf16 or fp16 on a GPU, fp32 on the CPU; "
             "off: fp32; fp64: for checks, slow",
             {.alias = "amp", .synonyms = {{"off", "fp32"}}}),
      Option("train.seed", &train.seed, "seed of all random numbers",
             {.alias = "seed", .range = at_least(0), .fixed = true}),
      Option("train.deterministic", &train.deterministic,
             "use only operators whose results are the same bit by bit in every run; slower"),
      Option("train.cuda_graph", &train.cuda_graph,
             "GPU: capture the steps in CUDA graphs, which are launched as one; has not run on a "
             "real GPU yet"),
      Option("train.freeze_batch_norm", &train.freeze_batch_norm,
             "batch norm uses its running statistics and does not update them",
             {.scope = kBatchNorm}),
      Option("train.sync_batch_norm", &train.sync_batch_norm,
             "batch norm: compute the statistics over the micro-batches of all ranks",
             {.scope = kBatchNorm}),
      Option("train.metric", &train.metric,
             "validation metric for the best checkpoint, early stopping and plateau; empty: the "
             "task's primary metric"),
      Option("train.patience", &train.patience,
             "stop after this many evaluations without improvement; 0: never",
             {.range = at_least(0)}),
      Option("train.min_delta", &train.min_delta,
             "early stopping: smallest change of the metric that counts as an improvement",
             {.range = at_least(0)}),
      Option("train.ema", &train.ema,
             "decay per optimizer step of an average of the weights, which is evaluated and saved; "
             "0: no average",
             {.range = below(0, 1), .fixed = true}),
      Option("train.overfit_batches", &train.overfit_batches,
             "train repeatedly on this many batches, without augmentation; 0: on all data",
             {.unit = "global batches", .range = between(0, 1 << 20), .fixed = true}),
      Option("train.label_smoothing", &train.label_smoothing,
             "fraction of the target that is spread over all classes",
             {.range = below(0, 1), .scope = kSmoothedLoss}),
      Option("train.class_weights", &train.class_weights,
             "none, balanced (rare classes count more), or one number per class, such as 1,0.5,2",
             {.scope = kClassWeights}),
      Option("train.eval_every", &train.eval_every,
             "how often to validate; always at the end as well", {.unit = kIntervalForms}),
  };
}

std::vector<Option> optimizer_keys(OptimizerConfig& optimizer) {
  return {
      Option("optimizer.name", &optimizer.name, "the update rule", {.fixed = true}),
      Option("optimizer.lr", &optimizer.lr, "learning rate before the schedule",
             {.alias = "lr", .range = above(0)}),
      Option("optimizer.weight_decay", &optimizer.weight_decay,
             "decoupled for adamw, added to the gradient for adam and sgd", {.range = at_least(0)}),
      Option("optimizer.momentum", &optimizer.momentum, "sgd: momentum", {.range = below(0, 1)}),
      Option("optimizer.nesterov", &optimizer.nesterov, "sgd: Nesterov's momentum"),
      Option("optimizer.beta1", &optimizer.beta1, "adam, adamw: decay of the mean gradient",
             {.range = below(0, 1)}),
      Option("optimizer.beta2", &optimizer.beta2, "adam, adamw: decay of the mean squared gradient",
             {.range = below(0, 1)}),
      Option("optimizer.eps", &optimizer.eps, "adam, adamw: added to the denominator",
             {.range = above(0)}),
      Option("optimizer.clip_norm", &optimizer.clip_norm,
             "maximum norm of the whole gradient, after unscaling; 0: no clipping",
             {.range = at_least(0)}),
      Option(
          "optimizer.clip_value", &optimizer.clip_value,
          "maximum absolute value of each element of the gradient, after unscaling; 0: no clipping",
          {.range = at_least(0)}),
      Option("optimizer.decay_norms_and_biases", &optimizer.decay_norms_and_biases,
             "weight decay acts on norms and biases (parameters with one dimension) as well",
             {.fixed = true}),
  };
}

std::vector<Option> schedule_keys(Schedule& schedule) {
  return {
      Option("schedule.name", &schedule.name, "how the learning rate changes after the warm-up"),
      Option("schedule.warmup_steps", &schedule.warmup_steps,
             "linear rise from 0 to lr: optimizer steps, a share of all steps of the run, or the "
             "shorter of both",
             {.unit = "500, 5%, 500steps,5%; 0: none"}),
      Option("schedule.step_epochs", &schedule.step_epochs, "step: epochs between drops",
             {.unit = "epochs", .range = at_least(1)}),
      Option("schedule.gamma", &schedule.gamma, "step, plateau: factor of a drop",
             {.range = up_to(0, 1)}),
      Option("schedule.final_lr_ratio", &schedule.final_lr_ratio,
             "cosine, one_cycle: learning rate at the end ÷ lr", {.range = between(0, 1)}),
      Option("schedule.patience", &schedule.patience,
             "plateau: evaluations without improvement before a drop", {.range = at_least(0)}),
      Option("schedule.threshold", &schedule.threshold,
             "plateau: smallest relative improvement that counts", {.range = at_least(0)}),
  };
}

std::vector<Option> amp_keys(Amp& amp) {
  return {
      Option("amp.init_scale", &amp.init_scale, "fp16: initial loss scale",
             {.range = between(1, 16777216)}),
      Option("amp.growth", &amp.growth, "fp16: factor after growth_interval good steps",
             {.range = above(1)}),
      Option("amp.backoff", &amp.backoff, "fp16: factor after a step with inf",
             {.range = inside(0, 1)}),
      Option("amp.growth_interval", &amp.growth_interval, "fp16: good steps before the scale grows",
             {.unit = "optimizer steps", .range = between(1, 2147483647)}),
  };
}

}  // namespace dtrain::config
