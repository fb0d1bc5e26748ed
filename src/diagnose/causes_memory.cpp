// Memory that runs out, or that the data set does not fit into.

#include <algorithm>
#include <cmath>

#include "core/strings.h"
#include "diagnose/causes.h"
#include "diagnose/means.h"

namespace dtrain::diagnose {
namespace {

using monitoring::Phase;

// Bytes per step by a straight line through the points from `begin` to `end`.
double slope_of(const std::vector<MemoryPoint>& points, size_t begin, size_t end) {
  const auto n = static_cast<double>(end - begin);
  double x = 0, y = 0, xx = 0, xy = 0;
  for (size_t i = begin; i < end; ++i) {
    x += points[i].steps / n;
    y += points[i].bytes / n;
    xx += points[i].steps * points[i].steps / n;
    xy += points[i].steps * points[i].bytes / n;
  }
  return xx > x * x ? (xy - x * y) / (xx - x * x) : 0;
}

// Bytes per step of memory that grows evenly, not by jumps and not at the start alone; 0: it does not.
double growth_of(const std::vector<MemoryPoint>& points) {
  constexpr size_t kFewest = 6;
  const size_t n = points.size();
  if (n < kFewest) return 0;
  const double all = slope_of(points, 0, n);
  for (const double part : {slope_of(points, 0, n / 2), slope_of(points, n / 2, n)}) {
    if (part < 0.5 * all || part > 2 * all) return 0;
  }
  return std::max(0.0, all);
}

void add_memory_growth(const RunEvidence& run, std::vector<Finding>& found) {
  constexpr double kManySteps = 10000, kMuch = 1 << 30;
  Finding worst{.cause = Cause::kMemoryGrowth};
  double most = 0;
  for (size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const double growth = growth_of(run.ranks[rank].memory);
    const double free = host_of(run, run.ranks[rank]).free_memory;
    const double steps = std::max(kManySteps, or_zero(run.settings.steps_left));
    if (growth <= most || growth * steps < (std::isfinite(free) ? free / 2 : kMuch)) continue;
    most = growth;
    worst.rank = rank_of(run, rank);
    worst.evidence =
        str(human_bytes(growth), " more per step, ", human_bytes(run.ranks[rank].memory.back().bytes), " now");
    worst.otherwise = std::isfinite(free) ? str("the host has no more in ", fixed(free / growth, 0), " steps")
                                          : "the run will end when the host has no more";
  }
  if (most > 0) found.push_back(worst);
}

void add_full_memory(const RunEvidence& run, std::vector<Finding>& found) {
  constexpr double kFull = 0.95;
  const std::string smaller = run.settings.batch_size > 1 ? str("--batch-size ", run.settings.batch_size / 2,
                                                                " --accumulate ", 2 * run.settings.accumulate)
                                                          : "--model.checkpointing true";
  for (size_t rank = 0; run.settings.gpu && rank < run.ranks.size(); ++rank) {
    const GpuUse& gpu = run.ranks[rank].gpu;
    const bool retries = gpu.allocator_retries > 0;
    if (!retries && !(gpu.memory_peak > kFull * gpu.memory_total)) continue;
    found.push_back({.cause = Cause::kMemoryFull,
                     .rank = rank_of(run, rank),
                     .evidence = str(human_bytes(gpu.memory_peak), " of ", human_bytes(gpu.memory_total), " of the GPU",
                                     retries ? ", and the allocator has to give memory back to find more" : ""),
                     .setting = smaller});
    return;
  }
  for (size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const HostUse& host = host_of(run, run.ranks[rank]);
    const double per_second = host.swapped_in / mean_wall(run.ranks[rank].steps);
    double used = 0;
    for (const RankEvidence& r : run.ranks) {
      if (r.host == run.ranks[rank].host && !r.memory.empty()) used += r.memory.back().bytes;
    }
    const bool swaps = per_second > 1 << 20;
    if (!swaps && !(host.free_memory < (1 - kFull) * used)) continue;
    found.push_back({.cause = Cause::kMemoryFull,
                     .evidence = swaps ? str(human_bytes(per_second), " per second come back from swap")
                                       : str("the job uses ", human_bytes(used), " of the host's memory, ",
                                             human_bytes(host.free_memory), " are left"),
                     .setting = smaller});
    return;
  }
}

// The second epoch should find its samples in memory.
void add_page_cache(const RunEvidence& run, std::vector<Finding>& found) {
  constexpr double kMany = 0.1;  // of the bytes that the readers read
  const RankEvidence* worst = &run.ranks[worst_rank(run, Phase::kDataWait)];
  const LoaderUse& loader = worst->loader;
  const double waits = mean_of(worst->steps, Phase::kDataWait), step = mean_wall(worst->steps);
  const bool again = host_of(run, *worst).read_again > kMany * loader.bytes && worst->disk_bytes > kMany * loader.bytes;
  if (run.settings.epochs <= 1 || !again || waits <= 0 || loader.bytes <= 0) return;
  // Readers that wait for nothing but the processor.
  const double period = (loader.service() - loader.read) / std::max(1, loader.threads);
  const double left =
      std::max(share_beyond_headroom(run, worst->steps), std::clamp((period - (step - waits)) / waits, 0.0, 1.0));
  found.push_back(
      {.cause = Cause::kPageCache,
       .rank = only_rank_with_slow_readers(run),
       .evidence = str(of_step(waits, step), " waiting; ", percent(std::min(1.0, worst->disk_bytes / loader.bytes)),
                       " of the data come from the disk again"),
       .otherwise = "if the data fitted into memory (convert --size makes pictures smaller)",
       .without = Replay{.change = times(Phase::kDataWait, left)}});
}

}  // namespace

std::vector<Finding> memory_causes(const RunEvidence& run) {
  std::vector<Finding> found;
  if (run.ranks.empty()) return found;
  for (const auto& add : {add_memory_growth, add_full_memory, add_page_cache}) add(run, found);
  return found;
}

}  // namespace dtrain::diagnose
