#include "train/evaluate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "core/check.h"
#include "core/clock.h"
#include "data/loader/loader.h"
#include "dist/object_collectives.h"
#include "text/number_text.h"
#include "text/strings.h"

namespace dtrain::train {
namespace {

// Names and shapes of counts as lines of text, such as "name 3 9", so that a rank without samples
// can take part.
std::string layout_of(const tasks::Counts& counts) {
  std::string text;
  for (const auto& [name, tensor] : counts) {
    text += name;
    for (const int64_t size : tensor.sizes()) text += str(" ", size);
    text += "\n";
  }
  return text;
}

tasks::Counts zeros_of(const std::string& layout) {
  tasks::Counts counts;
  for (const std::string& line : split(layout, '\n')) {
    if (line.empty()) continue;
    const std::vector<std::string> words = split(line, ' ');
    std::vector<int64_t> sizes;
    for (size_t i = 1; i < words.size(); ++i)
      sizes.push_back(parse_number<int64_t>(words[i]).value());
    counts.emplace_back(words[0], at::zeros(sizes, at::kDouble));
  }
  return counts;
}

void add(tasks::Counts& totals, const tasks::Counts& counts) {
  if (totals.empty()) {
    for (const auto& [name, tensor] : counts)
      totals.emplace_back(name, tensor.to(at::kDouble, false, /*copy=*/true));
    return;
  }
  DTRAIN_CHECK(totals.size() == counts.size(), "a task counts the same for every batch");
  for (size_t i = 0; i < counts.size(); ++i) totals[i].second += counts[i].second;
}

struct Errors {
  std::vector<int64_t> ids;
  std::vector<at::Tensor> values;  // one tensor per batch, on the device until the end
};

std::vector<WorstSample> worst_over_ranks(const Errors& mine, int64_t count,
                                          dist::Communicator& host) {
  std::vector<WorstSample> samples;
  if (!mine.values.empty()) {
    const at::Tensor values = at::cat(mine.values).to(at::kCPU, at::kDouble).contiguous();
    DTRAIN_CHECK(values.numel() == static_cast<int64_t>(mine.ids.size()), "one error per sample");
    for (size_t i = 0; i < mine.ids.size(); ++i)
      samples.push_back({mine.ids[i], values.const_data_ptr<double>()[i]});
  }
  samples = worst_of(std::move(samples), count);
  return worst_of(dist::all_gather_values(host, samples), count);
}

}  // namespace

void to_precision(data::Batch& batch, Precision precision) {
  if (precision != Precision::kFp64) return;
  for (at::Tensor* tensor : {&batch.inputs, &batch.targets}) {
    if (tensor->is_floating_point()) *tensor = tensor->to(at::kDouble);
  }
}

std::vector<WorstSample> worst_of(std::vector<WorstSample> samples, int64_t count) {
  const auto measure = [](const WorstSample& s) {
    return std::isnan(s.error) ? std::numeric_limits<double>::infinity() : s.error;
  };
  std::sort(samples.begin(), samples.end(), [&](const WorstSample& a, const WorstSample& b) {
    return std::make_tuple(-measure(a), !std::isnan(a.error), a.id) <
           std::make_tuple(-measure(b), !std::isnan(b.error), b.id);
  });
  samples.resize(std::min(samples.size(), static_cast<size_t>(count)));
  return samples;
}

tasks::Counts sum_over_ranks(const tasks::Counts& mine, dist::Communicator& host) {
  std::string agreed;
  for (const std::string& theirs : dist::all_gather_object(host, layout_of(mine))) {
    if (agreed.empty()) agreed = theirs;
    DTRAIN_CHECK(theirs.empty() || theirs == agreed, "ranks count differently: ", theirs, " and ",
                 agreed);
  }
  tasks::Counts totals = zeros_of(agreed);
  if (totals.empty()) return totals;
  std::vector<at::Tensor> parts;
  for (const auto& [name, tensor] : mine.empty() ? totals : mine)
    parts.push_back(tensor.to(at::kDouble).reshape({-1}));
  at::Tensor flat = at::cat(parts).to(at::kCPU);
  host.all_reduce(flat, dist::ReduceOp::kSum).wait();
  int64_t at = 0;
  for (auto& [name, tensor] : totals) {
    tensor.copy_(flat.slice(0, at, at + tensor.numel()).view(tensor.sizes()));
    at += tensor.numel();
  }
  return totals;
}

Evaluation evaluate(tasks::Task& task, const data::Store& store, const std::vector<int64_t>& ids,
                    const std::string& split_name, const EvaluateOptions& options,
                    dist::Communicator& host, PhaseTracker* tracker) {
  const auto begin = std::chrono::steady_clock::now();
  Evaluation result;
  monitoring::EvalStats& stats = result.stats;
  stats.split = split_name;
  stats.samples = static_cast<int64_t>(ids.size());
  if (ids.empty()) return result;

  data::LoaderOptions pass = data::one_pass(stats.samples, options.batch_size, host.size());
  pass.threads = options.threads;
  pass.prefetch = options.prefetch;
  pass.verify = options.verify;
  pass.skip_bad = options.skip_bad;
  pass.device = options.device;
  data::Loader loader(store, ids, task.samples(), pass, {host.rank(), host.size()});

  const at::NoGradGuard no_grad;
  task.model().eval();
  tasks::Counts counts;
  Errors errors;
  int64_t taken = 0;  // samples of this rank
  const auto report = [&] {
    const int64_t done =
        loader.done() ? stats.samples : std::min(stats.samples, taken * host.size());
    if (options.report) options.report({options.stage, done, stats.samples});
  };
  report();
  while (!loader.done()) {
    data::Batch batch = loader.next();
    taken += batch.samples() + static_cast<int64_t>(batch.left_out.size());
    if (batch.samples() > 0) {
      to_precision(batch, options.precision);
      const layers::AutocastGuard autocast = autocast_for(options.precision, options.device);
      const tasks::Counted counted = task.count(batch);
      add(counts, counted.sums);
      if (options.worst > 0 && counted.errors.defined()) {
        errors.ids.insert(errors.ids.end(), batch.ids.begin(), batch.ids.end());
        errors.values.push_back(counted.errors);
      }
    }
    if (tracker) tracker->proceed();
    report();
    result.stopped = options.stop && !loader.done() && options.stop();
    if (result.stopped) return result;
  }
  store.origin().check_unchanged();
  if (tracker) tracker->wait_for_others();
  at::Tensor bad = at::full({1}, static_cast<int64_t>(loader.bad_ids().size()), at::kLong);
  host.all_reduce(bad, dist::ReduceOp::kSum).wait();
  result.bad_samples = bad.item<int64_t>();
  stats.samples -= result.bad_samples;
  const tasks::Counts totals = sum_over_ranks(counts, host);
  if (!totals.empty()) {
    tasks::Summary summary = task.summarise(totals);
    stats.metrics = std::move(summary.metrics);
    stats.tables = std::move(summary.tables);
    for (const tasks::MetricSpec& spec : task.metrics()) {
      if (!spec.unit.empty()) stats.units[spec.name] = spec.unit;
    }
  }
  if (options.worst > 0) result.worst = worst_over_ranks(errors, options.worst, host);
  stats.seconds = seconds_since(begin);
  return result;
}

double metric(const monitoring::EvalStats& stats, const std::string& name) {
  for (const auto& [known, value] : stats.metrics) {
    if (known == name) return value;
  }
  DTRAIN_CHECK(stats.metrics.empty(), "there is no metric ", name);
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace dtrain::train
