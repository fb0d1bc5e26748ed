// The run: its folder, checkpoints, ranks, devices and metrics.

#include "catalog/gpus.h"
#include "config/keys.h"
#include "text/strings.h"

namespace dtrain::config {

std::vector<Option> run_keys(Run& run) {
  return {
      Option("run.name", &run.name,
             "name of the run and of its folder; empty: a new one, task-date-time. An existing "
             "name needs --resume",
             {.alias = "name"}),
      Option("run.folder", &run.folder, "where run folders are created"),
      Option("run.log_every", &run.log_every, "how often to print a step line",
             {.unit = kIntervalForms}),
      Option("run.progress", &run.progress,
             "progress bar or step lines; auto: a bar on a terminal, lines under mpirun",
             {.alias = "progress"}),
      Option("run.resume", &run.resume,
             "auto: continue the run of this name, or start it; or the path of a checkpoint or run "
             "folder",
             {.alias = "resume"}),
      Option("run.diagnose", &run.diagnose,
             "measure for 3 seconds, before training, what the run would do if loading were free; "
             "the verdict uses it",
             {.alias = "diagnose"}),
  };
}

std::vector<Option> checkpoint_keys(Checkpoint& checkpoint) {
  return {
      Option("checkpoint.every", &checkpoint.every, "how often to save; always at the end as well",
             {.unit = kIntervalForms}),
      Option("checkpoint.keep_last", &checkpoint.keep_last,
             "number of checkpoints to keep besides the best", {.range = at_least(1)}),
      Option("checkpoint.keep_best", &checkpoint.keep_best,
             "keep the best checkpoint by the validation metric"),
  };
}

std::vector<Option> dist_keys(Dist& dist) {
  return {
      Option("dist.backend", &dist.backend,
             "how gradients travel; auto: none for one rank, nccl with one GPU per rank, staged "
             "with shared GPUs, shared_memory for CPU ranks of one host, hierarchical (shared "
             "memory within each host, MPI between them) for those of several hosts, mpi where no "
             "host has two of them"),
      Option("dist.timeout", &dist.timeout, "a rank without progress for this long ends the job",
             {.unit = "seconds", .range = between(1, 1e6)}),
      Option("dist.bucket_mb", &dist.bucket_mb,
             "size of a gradient bucket; 0: from the measured cost of an all-reduce, so that the "
             "latency of all buckets and the time of the last one are shortest together (25 where "
             "a run repeats bit by bit, on the CPU and with train.deterministic, and in runs too "
             "short to measure it)",
             {.unit = "MiB", .range = between(0, 4096)}),
      Option(
          "dist.first_bucket_mb", &dist.first_bucket_mb,
          "size of the first bucket; small, so that sending starts early; not more than the others",
          {.unit = "MiB", .range = up_to(0, 4096)}),
      Option("dist.wire", &dist.wire,
             "what gradients are between ranks: fp32 as they are; bf16 and fp16 halve the bytes, "
             "and round each gradient once before it is sent and once after it is summed; fp16 "
             "scales the loss, as amp fp16 does"),
  };
}

std::vector<Option> device_keys(Device& device) {
  return {
      Option("device.type", &device.type, "auto: GPUs if there are any", {.alias = "device"}),
      Option("device.preset", &device.preset,
             str("for keys that are not set: batch size and precision for a GPU, computed from its "
                 "memory; auto: the GPU that is used; ",
                 join(catalog::gpu_names(), ", ")),
             {.alias = "preset"}),
      Option("device.threads", &device.threads,
             "CPU threads per rank; 0: available cores ÷ ranks that share them, at most "
             "OMP_NUM_THREADS",
             {.alias = "threads", .range = between(0, 4096)}),
      Option("device.cudnn_benchmark", &device.cudnn_benchmark,
             "images: let cuDNN compare its algorithms during the first steps"),
      Option("device.fused_norm", &device.fused_norm,
             "on a GPU: batch norm, activation, residual and max-pooling in dtrain's own kernels, "
             "after a comparison with LibTorch's operators; false: LibTorch's operators",
             {.scope = kBatchNorm}),
  };
}

std::vector<Option> metrics_keys(Metrics& metrics) {
  return {
      Option("metrics.enabled", &metrics.enabled,
             "serve Prometheus metrics and the live page over HTTP"),
      Option("metrics.bind", &metrics.bind,
             "IPv4 or IPv6 address to listen on; 0.0.0.0 and :: are reachable from other machines"),
      Option("metrics.port", &metrics.port, "first port, plus the local rank; 0: any free one",
             {.range = between(0, 65535)}),
      Option("metrics.linger_seconds", &metrics.linger_seconds, "keep serving after the last step",
             {.unit = "seconds", .range = between(0, 86400)}),
      Option("metrics.gpu_interval", &metrics.gpu_interval, "between readings of the GPU's sensors",
             {.unit = "seconds", .range = between(0.1, 3600)}),
      Option("metrics.auth_file", &metrics.auth_file,
             "file of mode 0600 with one line user:password, which every scrape must then give; "
             "empty: no password"),
  };
}

}  // namespace dtrain::config
