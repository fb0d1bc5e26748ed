#pragma once

// The whole configuration as plain structs, with the default, unit and meaning beside each field.
// config/keys.h lists every field once (name, range, text); the loader, --help, --print-config and
// docs/configuration.md use that list. 0 or "auto" means that the value is chosen at start-up and
// shown in the banner.

#include <cstdint>
#include <string>

#include "catalog/catalog.h"
#include "config/choices.h"
#include "config/interval.h"
#include "config/warm_up.h"

namespace dtrain::config {

struct ModuleTask {  // task `module`: what the TorchScript file does not say
  LossName loss = LossName::kMse;
  ModuleInputs inputs = ModuleInputs::kImage;  // the arguments of forward()
};

struct Run {
  std::string name;  // folder below `folder`; empty: task-date-time
  std::string folder = "runs";
  Interval log_every = {.steps = 10};  // between step lines
  ProgressMode progress = ProgressMode::kAuto;
  std::string resume;  // "" | auto | path of a checkpoint folder or of a run folder
  // Before training, measures for 3 s what the run would do if loading were free
  bool diagnose = false;
};

struct Data {
  std::string file;      // dtrain HDF5; empty with the quick start: generated
  int64_t workers = 0;   // reader threads per rank; 0: from the cores of this rank
  int64_t prefetch = 4;  // micro-batches read ahead
  // Share of the training split to validate on, by group, if the file has no validation split
  double val_share = 0.1;
  double share = 1;  // share of the training groups that are left, drawn by train.seed
  VerifyMode verify = VerifyMode::kFirstEpoch;
  OnBadSample on_bad_sample = OnBadSample::kStop;
  bool skips_bad_samples() const { return on_bad_sample == OnBadSample::kSkip; }
  // samples of different lengths: sorted by length within this many global batches; 0: not sorted
  int64_t length_window = 32;
  // And padded to one of this many lengths; 0: to the longest of the batch
  int64_t length_classes = 0;
};

struct Augment {            // training split only; every draw is keyed by (seed, epoch, sample id)
  bool hflip = true;        // with probability 1/2
  double crop_scale = 0.8;  // random resized crop: smallest fraction of the side; 1: no crop
  double crop_ratio = 1;    // random resized crop: aspect in [1/x, x]; 1: square
  double brightness = 0.2, contrast = 0.2, saturation = 0.2;  // factor in [1 - x, 1 + x]
  double hue = 0.02;  // shift of the hue in [-x, x]; 0.5 is half the circle
  // Sequence, encoder phase: standard deviation of the noise added to each element
  double noise = 0.1;
  double mask_share = 0.3;  // sequence, encoder phase: fraction of rows that are masked
  int64_t mask_span = 8;    // sequence, encoder phase: consecutive rows that are masked together
};

struct Model {
  catalog::NetworkId name = catalog::NetworkId::kAuto;
  int64_t image_size = 224;  // pixels, input of the network
  int64_t hidden = 256;      // units of each LSTM layer (pointer_network, cnn_lstm)
  double dropout = -1;       // -1: the network's default
  bool channels_last = true;
  std::string init;    // FILE.safetensors to start from
  std::string file;    // torchscript: FILE.pt
  std::string freeze;  // name patterns, "features.*,conv1": parameters that are not trained
  // Convolutional networks: activations are recomputed in the backward pass
  bool checkpointing = false;
};

struct Train {
  int64_t epochs = 30;
  int64_t max_steps = 0;    // optimizer steps; 0: `epochs` is the only limit
  int64_t batch_size = 32;  // samples per rank and micro-step
  // micro-steps per optimizer step; 0: derived from global_batch (1 if that is 0 too)
  int64_t accumulate = 0;
  int64_t global_batch = 0;  // samples per optimizer step; 0: batch_size × ranks × accumulate
  AmpMode amp = AmpMode::kAuto;
  uint64_t seed = 1;
  bool deterministic = false;
  bool cuda_graph = false;         // on a GPU (train/step_graphs.h)
  bool freeze_batch_norm = false;  // running statistics are used and not updated
  bool sync_batch_norm = false;    // statistics over the micro-batches of all ranks
  Interval eval_every = {.epochs = 1};
  // Metric of best checkpoint, early stopping and plateau; empty: the task's primary metric
  std::string metric;
  int64_t patience = 0;  // evaluations without improvement before the run stops; 0: never
  double min_delta = 0;  // smallest change that counts as an improvement
  double ema = 0;        // decay of the average of the weights per optimizer step; 0: no average
  int64_t overfit_batches = 0;  // train repeatedly on this many global batches; 0: on all data
  double label_smoothing = 0;   // classify, sequence
  std::string class_weights = "none";  // classify: none | balanced | a number per class, "1,0.5,2"
};

struct OptimizerConfig {
  OptimizerName name = OptimizerName::kAdamW;
  double lr = 1e-3;
  double weight_decay = 0.01;
  double momentum = 0.9;  // sgd
  bool nesterov = false;  // sgd
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double clip_norm = 0;                 // limit for the whole gradient, after unscaling; 0: none
  double clip_value = 0;                // limit for each element, after unscaling; 0: none
  bool decay_norms_and_biases = false;  // weight decay on one-dimensional parameters as well
};

struct Schedule {
  ScheduleName name = ScheduleName::kCosine;
  WarmUp warmup_steps;           // from 0 to lr, linear
  int64_t step_epochs = 30;      // step: epochs between drops
  double gamma = 0.1;            // step: factor of a drop
  double final_lr_ratio = 0.01;  // cosine, one_cycle: lr at the end ÷ lr
  int64_t patience = 5;          // plateau: evaluations without improvement before a drop
  double threshold = 1e-4;       // plateau: smallest relative improvement that counts
};

struct Pointer {
  // Fraction of samples whose decoder receives the correct order, in the first epoch
  double teacher_forcing = 1;
  double teacher_forcing_end = 1;  // and in the last epoch; linear in between
};

struct Sequence {
  int64_t encoder_epochs = 15, classifier_epochs = 15;  // per iteration
  int64_t iterations = 0;  // repetitions of both phases; 0: as many as train.epochs allows
  // Learning rate of the encoder in the classifier phase ÷ lr; 0: frozen
  double encoder_lr_ratio = 0;
};

struct Amp {
  double init_scale = 65536, growth = 2, backoff = 0.5;
  int64_t growth_interval = 2000;  // steps without inf before the scale grows
};

struct Checkpoint {
  Interval every = {.minutes = 10};
  int64_t keep_last = 3;
  bool keep_best = true;  // the best according to the validation metric
};

struct Dist {
  Backend backend = Backend::kAuto;
  double timeout = 300;        // seconds without progress of a rank before the job is ended
  double bucket_mb = 0;        // MiB; 0: by the measured cost of an all-reduce
  double first_bucket_mb = 1;  // MiB
  Wire wire = Wire::kFp32;
};

struct Device {
  DeviceType type = DeviceType::kAuto;
  // Settings for a GPU of the table in catalog/gpus.h: its name, or auto; empty: none
  std::string preset;
  int64_t threads = 0;  // CPU threads per rank; 0: cores it may use ÷ ranks on them
  bool cudnn_benchmark = true;
  bool fused_norm = true;  // on a GPU: batch norm and what follows it in own kernels
};

struct Metrics {
  bool enabled = true;
  std::string bind = "127.0.0.1";
  int64_t port = 9500;        // + local rank; 0: any free port
  double linger_seconds = 0;  // keep the endpoint after the last step
  double gpu_interval = 2;    // seconds between NVML readings
  std::string auth_file;      // one line user:password, mode 0600; empty: no password
};

struct Config {
  catalog::TaskId task{};  // the first of the table: headpose
  ModuleTask module;
  Run run;
  Data data;
  Augment augment;
  Model model;
  Train train;
  OptimizerConfig optimizer;
  Schedule schedule;
  Pointer pointer;
  Sequence sequence;
  Amp amp;
  Checkpoint checkpoint;
  Dist dist;
  Device device;
  Metrics metrics;
};

catalog::NetworkId network_of(const Config&);  // model.name, or the task's first network for auto
double dropout_of(const Config&);              // model.dropout, or the network's default for -1

}  // namespace dtrain::config
