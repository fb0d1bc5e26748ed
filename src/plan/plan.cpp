#include "plan/plan.h"

#include <algorithm>
#include <set>

#include "core/check.h"
#include "data/order/shard.h"
#include "text/strings.h"

namespace dtrain::plan {
namespace {

// What ranks agree on at each step boundary (train/step_agreement.h)
constexpr double kRequestBytes = 5 * 8;
// Of the step, below which unequal shares are not worth a note
constexpr double kUnevenShare = 0.01;

std::vector<int64_t> sizes_of(const data::MicroPlan& plan) {
  std::vector<int64_t> sizes;
  for (const data::Range& range : plan.micro) sizes.push_back(range.size());
  return sizes;
}

double memory_of(const train::StepMemory& memory) { return static_cast<double>(memory.total()); }

// Rank 0 has the largest share of a step; without samples its micro-steps still take part.
StepForecast step_of(const MeasuredRun& run, const Request& request,
                     const train::BatchArithmetic& batches, int64_t samples) {
  return forecast_step(run, request.assumptions, batches.ranks, micro_batches(batches, samples));
}

double epoch_of(const MeasuredRun& run, const Request& request, const PlanRow& row) {
  const auto steps = static_cast<double>(row.batches.steps_per_epoch);
  if (row.batches.tail == 0 || row.batches.steps_per_epoch == 0) return steps * row.step.total();
  return (steps - 1) * row.step.total() +
         step_of(run, request, row.batches, row.batches.tail).total();
}

Sent sent_by(const MeasuredRun& run, const train::BatchArithmetic& batches) {
  const auto micro_steps = static_cast<double>(batches.accumulate);
  Sent sent;
  for (const TimedBucket& bucket : run.buckets)
    sent.gradients += all_reduce_sent(batches.ranks, bucket.bytes);
  for (const double bytes : run.statistics) {
    sent.statistics += micro_steps * all_reduce_sent(batches.ranks, bytes);
  }
  // Directly to each other rank
  sent.host = static_cast<double>(batches.ranks - 1) * kRequestBytes;
  return sent;
}

// Batches that are read ahead for a GPU wait in the host's memory.
train::StepMemory memory_at(const MeasuredRun& run, const train::BatchArithmetic& batches,
                            bool on_gpu) {
  train::StepMemory memory = at_size(run, train::largest_micro_batch(batches)).memory;
  if (!on_gpu) memory.batch *= 1 + run.prefetch;
  return memory;
}

// What could be smaller, in the order in which it is usually done.
std::string remedy(const Request& request, const train::BatchArithmetic& batches) {
  const int64_t half = train::largest_micro_batch(batches) / 2;
  std::vector<std::string> all;
  if (half >= 1)
    all.push_back(str("--batch-size ", half, " --train.global_batch ", batches.global_batch));
  all.insert(all.end(), request.smaller.begin(), request.smaller.end());
  if (all.empty()) return "use a smaller network, or a card with more memory";
  return str("use ", join(all, ", "), ", or a card with more memory");
}

void check_memory(PlanRow& row, const Request& request, bool on_gpu) {
  if (request.memory_bytes == 0 || !row.blocked.empty()) return;
  const double reserved = on_gpu ? static_cast<double>(kReservedBytes) : 0;
  const double needed = memory_of(row.memory) + reserved,
               there = static_cast<double>(request.memory_bytes);
  const std::string sum =
      str(human_bytes(needed),
          on_gpu ? str(" (", human_bytes(reserved), " of it for CUDA and NCCL)") : "", " of ",
          human_bytes(there), " of ", request.memory_name);
  if (needed > there) {
    row.blocked = str("a rank needs ", sum, ": ", remedy(request, row.batches));
  } else if (needed > 0.9 * there) {
    row.notes.push_back(str("memory is nearly full: ", sum));
  }
}

void judge_batches(PlanRow& row, double busy_seconds, double full_seconds) {
  const train::BatchArithmetic& b = row.batches;
  if (b.ranks > b.samples) {
    row.blocked = str(b.ranks, " ranks, and an epoch has ", human_count(b.samples),
                      b.samples == 1 ? " sample" : " samples", ": some ranks would never have one");
    return;
  }
  if (b.ranks > b.global_batch) {
    row.notes.push_back(
        str("the global batch of ", b.global_batch, " leaves ", b.ranks - b.global_batch, " of ",
            b.ranks, " ranks without a sample: let it grow (--scaling grow), or use fewer ranks"));
  } else if (b.global_batch % b.ranks != 0 && busy_seconds > (1 + kUnevenShare) * full_seconds) {
    row.notes.push_back(str("a global batch of ", b.global_batch, " is not a multiple of ", b.ranks,
                            " ranks: some have a sample more than others, which costs ",
                            fixed(100 * (busy_seconds / full_seconds - 1), 1), " % of the step"));
  }
  if (b.global_batch > b.samples) {
    row.notes.push_back(str("an epoch is one step of ", human_count(b.samples),
                            " samples: the global batch of ", human_count(b.global_batch),
                            " is larger"));
  }
}

// If every rank had the same, fractional, number of samples.
double even_seconds(const MeasuredRun& run, const Request& request,
                    const train::BatchArithmetic& b) {
  const int64_t fewer = b.global_batch / b.ranks, more = fewer + 1;
  if (fewer == 0) return 0;
  const auto of_share = [&](int64_t share) {
    const data::GlobalBatch of_one{.epoch = 0, .positions = {0, share}};
    const std::vector<int64_t> sizes = sizes_of(data::micro_plan(of_one, b.batch_size, {}));
    return forecast_step(run, request.assumptions, b.ranks, sizes).total();
  };
  const double part = static_cast<double>(b.global_batch % b.ranks) / static_cast<double>(b.ranks);
  return (1 - part) * of_share(fewer) + part * of_share(more);
}

double rate_of(const train::BatchArithmetic& batches, const StepForecast& step) {
  return static_cast<double>(std::min(batches.global_batch, batches.samples)) / step.total();
}

PlanRow row_of(const MeasuredRun& run, const Request& request, int64_t ranks, double rate_alone) {
  PlanRow row{.batches = train::batch_arithmetic(request.train, ranks, run.samples),
              .nodes = request.assumptions.fabric.nodes(ranks)};
  row.step = step_of(run, request, row.batches, std::min(row.batches.global_batch, run.samples));
  row.epoch_seconds = epoch_of(run, request, row);
  row.samples_per_second = rate_of(row.batches, row.step);
  row.efficiency = row.samples_per_second / (static_cast<double>(ranks) * rate_alone);
  row.sent = sent_by(run, row.batches);
  const bool on_gpu = run.on_gpu() || request.assumptions.fabric.library == Library::kNccl;
  row.memory = memory_at(run, row.batches, on_gpu);
  for (const int64_t size :
       micro_batches(row.batches, std::min(row.batches.global_batch, run.samples))) {
    row.estimated = row.estimated || !was_measured(run, size);
  }
  judge_batches(row, row.step.total(), even_seconds(run, request, row.batches));
  check_memory(row, request, on_gpu);
  return row;
}

}  // namespace

Scaling scaling_of(const config::Train& train) {
  return train.global_batch > 0 ? Scaling::kKeep : Scaling::kGrow;
}

config::Train scaled(const config::Train& train, Scaling scaling) {
  config::Train changed = train;
  if (scaling == scaling_of(train)) return changed;
  const int64_t micro_steps = std::max<int64_t>(1, train.accumulate);
  if (scaling == Scaling::kKeep) {
    changed.global_batch = train.batch_size * micro_steps;
    changed.accumulate = 0;
  } else {
    changed.accumulate = train::micro_steps(train.global_batch, 1, train.batch_size);
    changed.batch_size = std::min(train.batch_size, train.global_batch);
    changed.global_batch = 0;
  }
  return changed;
}

std::vector<int64_t> micro_batches(const train::BatchArithmetic& batches, int64_t samples) {
  DTRAIN_CHECK(samples > 0, "a step without samples");
  const data::GlobalBatch step{.epoch = 0, .positions = {0, samples}};
  const auto ranks = static_cast<int>(batches.ranks);
  const int64_t size = data::division_size(batches.batch_size, batches.global_batch, ranks);
  return sizes_of(data::training_plan(step, size, {.rank = 0, .size = ranks}));
}

std::vector<int64_t> sizes_needed(const config::Train& train, std::span<const int64_t> ranks,
                                  int64_t samples) {
  std::set<int64_t> sizes;
  const auto add = [&](int64_t count) {
    const train::BatchArithmetic batches = train::batch_arithmetic(train, count, samples);
    for (const int64_t size : micro_batches(batches, std::min(batches.global_batch, samples)))
      sizes.insert(size);
  };
  add(1);  // what efficiency is in relation to
  for (const int64_t count : ranks) add(count);
  return {sizes.begin(), sizes.end()};
}

void compare_with_gpus(Request& request, std::span<const int64_t> memory_bytes) {
  const auto [smallest, largest] = std::ranges::minmax(memory_bytes);
  request.memory_bytes = smallest;
  request.memory_name = smallest == largest ? "this GPU" : "the smallest GPU of this job";
}

std::vector<PlanRow> make_plan(const MeasuredRun& run, const Request& request) {
  const train::BatchArithmetic alone = train::batch_arithmetic(request.train, 1, run.samples);
  const double rate_alone =
      rate_of(alone, step_of(run, request, alone, std::min(alone.global_batch, run.samples)));
  std::vector<PlanRow> rows;
  for (const int64_t ranks : request.ranks) rows.push_back(row_of(run, request, ranks, rate_alone));
  return rows;
}

}  // namespace dtrain::plan
