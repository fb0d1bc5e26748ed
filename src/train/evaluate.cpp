#include "train/evaluate.h"

#include <chrono>

#include "core/strings.h"
#include "data/loader.h"
#include "dist/bytes.h"

namespace dtrain::train {

void to_precision(data::Batch& batch, Precision precision) {
  if (precision != Precision::kFp64) return;
  batch.inputs = batch.inputs.to(at::kDouble);
  batch.targets = batch.targets.to(at::kDouble);
}

monitoring::EvalStats evaluate(tasks::Task& task, const data::Store& store, const std::vector<int64_t>& ids,
                               const std::string& split_name, const EvaluateOptions& options, dist::Communicator& host,
                               const std::function<void()>& on_batch) {
  const auto begin = std::chrono::steady_clock::now();
  monitoring::EvalStats stats;
  stats.split = split_name;
  stats.samples = static_cast<int64_t>(ids.size());
  if (ids.empty()) return stats;

  const int64_t global_batch = options.batch_size * host.size();
  data::Loader loader(store, ids, task.samples(),
                      {.batch_size = options.batch_size,
                       .global_batch = global_batch,
                       .steps = data::steps_per_epoch(stats.samples, global_batch),
                       .shuffle = false,
                       .augment = false,
                       .threads = options.threads,
                       .prefetch = options.prefetch,
                       .verify = options.verify,
                       .device = options.device},
                      {host.rank(), host.size()});

  const at::NoGradGuard no_grad;
  task.model().eval();
  std::vector<std::string> names;
  std::vector<at::Tensor> sums;  // [2] each: sum, weight
  while (!loader.done()) {
    data::Batch batch = loader.next();
    if (batch.samples() > 0) {
      to_precision(batch, options.precision);
      const Autocast autocast(options.precision, options.device);
      const std::vector<tasks::Metric> metrics = task.evaluate(batch);
      for (size_t i = 0; i < metrics.size(); ++i) {
        const at::Tensor pair = at::stack({metrics[i].sum, metrics[i].weight});
        if (sums.size() < metrics.size()) {
          names.push_back(metrics[i].name);
          sums.push_back(pair);
        } else {
          sums[i] += pair;
        }
      }
    }
    if (on_batch) on_batch();
  }
  // A rank without a sample does not know the metrics' names: rank 0 always has the first sample of the split, and
  // tells.
  names = split(dist::broadcast_text(host, join(names, "\n")), '\n');
  const auto count = static_cast<int64_t>(names.size());
  at::Tensor totals = sums.empty() ? at::zeros({count, 2}, at::kDouble) : at::stack(sums).to(at::kCPU);
  host.all_reduce(totals, dist::ReduceOp::kSum).wait();
  for (int64_t i = 0; i < count; ++i) {
    stats.metrics[names[static_cast<size_t>(i)]] = totals[i][0].item<double>() / totals[i][1].item<double>();
  }
  stats.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return stats;
}

}  // namespace dtrain::train
