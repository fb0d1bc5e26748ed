// Cores that a rank had to wait for, GPUs that run slower than they could, and memory that runs out.

#include <algorithm>
#include <cmath>

#include "core/strings.h"
#include "diagnose/causes.h"
#include "diagnose/means.h"

namespace dtrain::diagnose {
namespace {

using monitoring::Phase;
using monitoring::StepTimes;
using BySeconds = std::vector<double>;  // by rank, per step

double or_zero(double value) { return std::isfinite(value) ? value : 0; }

size_t worst_of(const BySeconds& seconds) {
  return static_cast<size_t>(std::max_element(seconds.begin(), seconds.end()) - seconds.begin());
}

const HostUse& host_of(const RunEvidence& run, const RankEvidence& rank) {
  static const HostUse unknown;
  const auto host = static_cast<size_t>(rank.host);
  return host < run.hosts.size() ? run.hosts[host] : unknown;
}

// ---- cores --------------------------------------------------------------------------------------------------------

// Who kept a rank's network from its cores, in seconds per step of the rank.
struct Waits {
  double stopped = 0;  // by the limit of the control group
  double bound = 0;    // idle cores that no rank may use
  double others = 0;   // other processes
  double own = 0;      // other threads of this job
};

// Sums over the ranks of a host.
struct Job {
  double side_cpu = 0, waits = 0, threads = 0, ranks = 0;
};

Job job_on(const RunEvidence& run, int host) {
  Job job;
  for (const RankEvidence& rank : run.ranks) {
    if (rank.host != host) continue;
    job.side_cpu += or_zero(rank.cores.side_cpu);
    job.waits += or_zero(rank.cores.run_delay);
    job.threads += rank.cores.compute_threads;
    ++job.ranks;
  }
  return job;
}

Waits waits_of(const RunEvidence& run, const RankEvidence& rank) {
  const HostUse& host = host_of(run, rank);
  const Job job = job_on(run, rank.host);
  Waits waits;
  waits.stopped = or_zero(rank.cores.throttled);
  double left = std::max(0.0, or_zero(rank.cores.run_delay) - waits.stopped);
  if (host.job_cores < host.cores && host.idle > 0 && job.waits > 0) {
    waits.bound = left * std::min(1.0, host.idle / job.waits);
    left -= waits.bound;
  }
  // The network waits for a core while other threads run: those of other processes, and the readers of the ranks, whose
  // work has to be done in any case.
  if (host.others_cpu > 0) waits.others = left * host.others_cpu / (host.others_cpu + job.side_cpu);
  waits.own = left - waits.others;
  return waits;
}

void add_waits(const RunEvidence& run, Cause cause, const BySeconds& seconds, const std::string& why,
               const char* otherwise, std::vector<Finding>& found) {
  const size_t rank = worst_of(seconds);
  if (!(seconds[rank] > 0)) return;
  // Where the machine keeps all ranks alike from computing, it is not about one of them.
  const double least = *std::min_element(seconds.begin(), seconds.end());
  found.push_back({.cause = cause,
                   .rank = 2 * least > seconds[rank] ? -1 : rank_of(run, rank),
                   .evidence = str(of_step(seconds[rank], mean_wall(run.ranks[rank].steps)), why),
                   .otherwise = otherwise,
                   .without = Replay{.change = computes_sooner(run.steps(), seconds)}});
}

// More threads than cores: what is left to do would have to be done by fewer threads, so no gain can be computed.
void add_own_threads(const RunEvidence& run, const BySeconds& own, std::vector<Finding>& found) {
  constexpr double kMuch = 0.1;  // of a step; below it, readers may be the reason
  const size_t rank = worst_of(own);
  const RankEvidence& crowded = run.ranks[rank];
  const HostUse& host = host_of(run, crowded);
  const Job job = job_on(run, crowded.host);
  const double step = mean_wall(crowded.steps);
  if (!(job.threads > host.job_cores) || own[rank] < kMuch * step) return;
  Finding finding{.cause = Cause::kOversubscribed,
                  .evidence = str(of_step(own[rank], step), " waiting for a core; ", job.ranks, " ranks have ",
                                  job.threads, " threads of the network on ", host.job_cores, " cores")};
  const double fitting = std::max(1.0, std::floor(host.job_cores / job.ranks));
  if (crowded.cores.compute_threads > fitting) {
    finding.setting = str("--device.threads ", fitting);
  } else {
    finding.otherwise = str("start at most ", host.job_cores, " ranks on this host");
  }
  found.push_back(std::move(finding));
}

void add_cores(const RunEvidence& run, std::vector<Finding>& found) {
  BySeconds stopped, bound, others, own, stolen;
  for (const RankEvidence& rank : run.ranks) {
    const Waits waits = waits_of(run, rank);
    stopped.push_back(waits.stopped);
    bound.push_back(waits.bound);
    others.push_back(waits.others);
    own.push_back(waits.own);
    const HostUse& host = host_of(run, rank);
    stolen.push_back(or_zero(host.steal) / std::max(1.0, or_zero(host.cores)));
  }
  const RankEvidence& crowded = run.ranks[worst_of(others)];
  const HostUse& host = host_of(run, crowded);
  add_waits(run, Cause::kOversubscribed, others,
            str(" waiting for a core; other processes use ",
                fixed(or_zero(host.others_cpu) / mean_wall(crowded.steps), 1), " of ", host.cores, " cores"),
            "without them", found);
  const HostUse& bound_host = host_of(run, run.ranks[worst_of(bound)]);
  add_waits(run, Cause::kBinding, bound,
            str(" waiting for a core; the ranks may use ", bound_host.job_cores, " of ", bound_host.cores, " cores"),
            "with all cores (mpirun --bind-to none; taskset, cpuset)", found);
  add_own_threads(run, own, found);
  add_waits(run, Cause::kCpuLimit, stopped, " stopped by the CPU limit of the control group",
            "with a higher limit (cpu.max; resources.limits.cpu in Kubernetes)", found);
  add_waits(run, Cause::kSteal, stolen, " taken by the hypervisor for other machines", "on a machine of its own",
            found);
}

// ---- GPUs ---------------------------------------------------------------------------------------------------------

// A rank whose GPU computes at a lower clock than it could. Kernels that wait for memory gain less.
void add_slow_clock(const RunEvidence& run, Cause cause, size_t rank, const std::string& why, Finding fix,
                    std::vector<Finding>& found) {
  const GpuUse& gpu = run.ranks[rank].gpu;
  fix.cause = cause;
  fix.rank = rank_of(run, rank);
  fix.evidence = str("clock of ", fixed(gpu.clock * 1e-6, 0), " of ", fixed(gpu.full_clock * 1e-6, 0), " MHz, ", why);
  fix.without = Replay{.change = [rank, slow = gpu.clock / gpu.full_clock](size_t r, size_t, StepTimes& s) {
    if (r != rank) return;
    s.phases[static_cast<size_t>(Phase::kForward)] *= slow;
    s.phases[static_cast<size_t>(Phase::kBackward)] *= slow;
  }};
  found.push_back(std::move(fix));
}

void add_gpus(const RunEvidence& run, std::vector<Finding>& found) {
  constexpr double kOften = 0.2;  // of the time
  for (size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const GpuUse& gpu = run.ranks[rank].gpu;
    if (!(gpu.clock > 0 && gpu.clock < gpu.full_clock)) continue;
    if (gpu.heat_limited > kOften) {
      add_slow_clock(run, Cause::kHeat, rank,
                     str("too hot in ", percent(gpu.heat_limited), " of the time (", fixed(gpu.temperature, 0), " C)"),
                     {.otherwise = "with better cooling"}, found);
    } else if (gpu.power_limited > kOften && gpu.power_limit < 0.98 * gpu.default_power_limit) {
      // At the card's own limit it is as fast as it is sold to be.
      add_slow_clock(run, Cause::kPower, rank, str("at a power limit of ", fixed(gpu.power_limit, 0), " W"),
                     {.setting = str("nvidia-smi -pl ", fixed(gpu.default_power_limit, 0))}, found);
    }
  }
}

// ---- memory -------------------------------------------------------------------------------------------------------

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
  const auto worst = std::max_element(run.ranks.begin(), run.ranks.end(), [](const auto& a, const auto& b) {
    return mean_of(a.steps, Phase::kDataWait) < mean_of(b.steps, Phase::kDataWait);
  });
  const LoaderUse& loader = worst->loader;
  const double waits = mean_of(worst->steps, Phase::kDataWait), step = mean_wall(worst->steps);
  const bool again = host_of(run, *worst).read_again > kMany * loader.bytes && worst->disk_bytes > kMany * loader.bytes;
  if (run.settings.epochs <= 1 || !again || waits <= 0 || loader.bytes <= 0) return;
  // Readers that wait for nothing but the processor.
  const double period = (loader.service() - loader.read) / std::max(1, loader.threads);
  const double left = std::clamp((period - (step - waits)) / waits, 0.0, 1.0);
  found.push_back(
      {.cause = Cause::kPageCache,
       .rank = only_rank(run, Phase::kDataWait),
       .evidence = str(of_step(waits, step), " waiting; ", percent(std::min(1.0, worst->disk_bytes / loader.bytes)),
                       " of the data come from the disk again"),
       .otherwise = "if the data fitted into memory (convert --size makes pictures smaller)",
       .without = Replay{.change = times(Phase::kDataWait, left)}});
}

}  // namespace

std::vector<Finding> machine_causes(const RunEvidence& run) {
  std::vector<Finding> found;
  if (run.ranks.empty()) return found;
  for (const auto& add : {add_cores, add_gpus, add_memory_growth, add_full_memory, add_page_cache}) add(run, found);
  return found;
}

}  // namespace dtrain::diagnose
