// The run: its folder, checkpoints, ranks, devices and metrics.

#include "catalog/gpus.h"
#include "config/keys.h"
#include "text/strings.h"

namespace dtrain::config {

std::vector<Option> run_keys(Run& run) {
  return {
      {.path = "run.name",
       .alias = "name",
       .target = &run.name,
       .text = "name of the run and of its folder; empty: a new one, task-date-time. An existing "
               "name needs --resume"},
      {.path = "run.folder", .target = &run.folder, .text = "where run folders are created"},
      {.path = "run.log_every",
       .target = &run.log_every,
       .text = "how often to print a step line",
       .unit = kIntervalForms},
      {.path = "run.progress",
       .alias = "progress",
       .target = &run.progress,
       .text = "progress bar or step lines; auto: a bar on a terminal, lines under mpirun"},
      {.path = "run.resume",
       .alias = "resume",
       .target = &run.resume,
       .text = "auto: continue the run of this name, or start it; or the path of a checkpoint or "
               "run folder"},
      {.path = "run.diagnose",
       .alias = "diagnose",
       .target = &run.diagnose,
       .text = "measure for 3 seconds, before training, what the run would do if loading were "
               "free; the verdict uses it"},
  };
}

std::vector<Option> checkpoint_keys(Checkpoint& checkpoint) {
  return {
      {.path = "checkpoint.every",
       .target = &checkpoint.every,
       .text = "how often to save; always at the end as well",
       .unit = kIntervalForms},
      {.path = "checkpoint.keep_last",
       .target = &checkpoint.keep_last,
       .text = "number of checkpoints to keep besides the best",
       .range = at_least(1)},
      {.path = "checkpoint.keep_best",
       .target = &checkpoint.keep_best,
       .text = "keep the best checkpoint by the validation metric"},
  };
}

std::vector<Option> dist_keys(Dist& dist) {
  return {
      {.path = "dist.backend",
       .target = &dist.backend,
       .text = "how gradients travel; auto: none for one rank, nccl with one GPU per rank, staged "
               "with shared GPUs, "
               "shared_memory for CPU ranks of one host, hierarchical (shared memory within each "
               "host, MPI between "
               "them) for those of several hosts, mpi where no host has two of them"},
      {.path = "dist.timeout",
       .target = &dist.timeout,
       .text = "a rank without progress for this long ends the job",
       .unit = "seconds",
       .range = between(1, 1e6)},
      {.path = "dist.bucket_mb",
       .target = &dist.bucket_mb,
       .text = "size of a gradient bucket; 0: from the measured cost of an all-reduce, so that the "
               "latency of all "
               "buckets and the time of the last one are shortest together (25 where a run repeats "
               "bit by bit, on the "
               "CPU and with train.deterministic, and in runs too short to measure it)",
       .unit = "MiB",
       .range = between(0, 4096)},
      {.path = "dist.first_bucket_mb",
       .target = &dist.first_bucket_mb,
       .text = "size of the first bucket; small, so that sending starts early; not more than the "
               "others",
       .unit = "MiB",
       .range = up_to(0, 4096)},
      {.path = "dist.wire",
       .target = &dist.wire,
       .text = "what gradients are between ranks: fp32 as they are; bf16 and fp16 halve the bytes, "
               "and round each "
               "gradient once before it is sent and once after it is summed; fp16 scales the loss, "
               "as amp fp16 does"},
  };
}

std::vector<Option> device_keys(Device& device) {
  return {
      {.path = "device.type",
       .alias = "device",
       .target = &device.type,
       .text = "auto: GPUs if there are any"},
      {.path = "device.preset",
       .alias = "preset",
       .target = &device.preset,
       .text = str("for keys that are not set: batch size and precision for a GPU, computed from "
                   "its memory; auto: the "
                   "GPU that is used; ",
                   join(catalog::gpu_names(), ", "))},
      {.path = "device.threads",
       .alias = "threads",
       .target = &device.threads,
       .text = "CPU threads per rank; 0: available cores ÷ ranks that share them, at most "
               "OMP_NUM_THREADS",
       .range = between(0, 4096)},
      {.path = "device.cudnn_benchmark",
       .target = &device.cudnn_benchmark,
       .text = "images: let cuDNN compare its algorithms during the first steps"},
      {.path = "device.fused_norm",
       .target = &device.fused_norm,
       .text = "on a GPU: batch norm, activation, residual and max-pooling in dtrain's own "
               "kernels, after a comparison "
               "with LibTorch's operators; false: LibTorch's operators",
       .scope = kBatchNorm},
  };
}

std::vector<Option> metrics_keys(Metrics& metrics) {
  return {
      {.path = "metrics.enabled",
       .target = &metrics.enabled,
       .text = "serve Prometheus metrics and the live page over HTTP"},
      {.path = "metrics.bind",
       .target = &metrics.bind,
       .text =
           "IPv4 or IPv6 address to listen on; 0.0.0.0 and :: are reachable from other machines"},
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
      {.path = "metrics.auth_file",
       .target = &metrics.auth_file,
       .text = "file of mode 0600 with one line user:password, which every scrape must then give; "
               "empty: no password"},
  };
}

}  // namespace dtrain::config
